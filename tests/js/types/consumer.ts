// Compiled in the strictest mode, never run: what a user writes must pass, what the types forbid must not.
import init, {
  deriveSeed,
  distribution,
  draw,
  exp,
  firstDivergence,
  Frame,
  Generator,
  logitsBuffer,
  loadState,
  mosaicDecision,
  mosaicStep,
  mosaicTrace,
  randomSeed,
  release,
  SamplerError,
  sampleBatch,
  sampleToken,
  speculativeStep,
  stateSchema,
  stepBatch,
  uniform,
  verify,
  type Claim,
  type GeneratorState,
  type Logits,
  type Model,
  type RecordFile,
  type Processor,
  type RunRecord,
  type RunSettings,
  type Seed,
  type Settings,
  type SparseRow,
  type TokenIds,
  type Trace,
  type Verdict,
} from "@quillmate/sampler";

await init();

const logits: Logits = new Float32Array([0, 1, 2]);
const settings: Settings = { temperature: 0.8 };
const view: Float32Array = logitsBuffer(3);
view.set(logits);
sampleToken(view, settings, 0.5);
const token: number = sampleToken(logits, settings, uniform("42", 0));
sampleToken(new Float64Array(3), undefined, 0.5);
sampleToken(logits, { temperature: 0 });
// @ts-expect-error only temperature 0 needs no uniform number
sampleToken(logits, { temperature: 0.8 });
sampleToken(logits, {}, uniform(42n, 0n, 1n));
const { ids, probabilities } = distribution(logits, { topP: 0.9 });
ids.fill(0);
for (const answer of sampleBatch(logits, 3, undefined, [0.5])) {
  if (typeof answer === "number") answer.toFixed();
  else answer.code.toUpperCase();
}
const judged: { token: number; accepted: boolean } = speculativeStep(probabilities, probabilities, 0, 0.1, 0.2);
const bits: bigint = draw(randomSeed(), token);
const y: number = exp(-1);
const schema: unknown = JSON.parse(stateSchema());

const model: Model = (tokens) => new Float64Array(tokens.length + 1);
const seeds: Seed[] = ["42", 42n, 42];
const prompt: TokenIds = [1, 2];
for (const seed of seeds) new Generator(model, prompt, seed).free();
const run = new Generator(null, new Uint32Array(2), 1, settings);
run.stepWith(logits);
const processors: Processor[] = [
  { name: "repetition_penalty", version: 1, penalty: 1.1, window: 64 },
  { name: "logit_bias", version: 1, biases: [[7, -1.5]] },
  { name: "forced_end", version: 1, length: 40, end_tokens: [2] },
  { name: "typical", version: 1, p: 0.9 },
];
const second: Processor = { name: "typical", version: 2, p: 0.9, min_keep: 2 };
processors.push(second);
const processed: RunSettings = { temperature: 0.9, processors };
new Generator(null, prompt, 1, processed).settings.processors?.map(({ name }) => name);
// @ts-expect-error a row alone has no history
sampleToken(logits, processed, 0.5);
// @ts-expect-error no such version
new Generator(null, prompt, 1, { processors: [{ name: "min_p", version: 2, p: 0.1 }] });
// @ts-expect-error no such processor
new Generator(null, prompt, 1, { processors: [{ name: "mirostat", version: 1 }] });
const trace: Trace = run.trace(logits, { redact: true });
const [stage] = trace.stages;
const chosen: number | null = run.decision(logits).selected_probability ?? trace.probability ?? stage?.candidates ?? null;
void chosen;
const frame: Frame = Frame.forSettings(run.position, new Float32Array(4), run.settings);
run.stepWithFrame(frame);
stepBatch([run], (contexts) => contexts.map(() => new Float32Array(4)));
stepBatch([run]);
run.stepWithDrafts([logits, logits], [1]).tokens.length;
run.stepSpeculative([logits, logits], [{ token: 1, ids, probabilities }]).accepted.toFixed();
const dtype: "f32" | "bf16" | "f16" = frame.dtype;
const layout: "dense" | "sparse" = frame.layout;
const most: number | null = frame.maxTopK;
Frame.decode(frame.encode()).logits(settings).length;
frame[Symbol.dispose]();

const state: GeneratorState = JSON.parse(JSON.stringify(run.state())) as GeneratorState;
const topK: number = state.settings.top_k;
Generator.fromState(model, state).step();
const record: RunRecord = { start: state, frames: [new Uint8Array(4)] };
const claim: Claim = { tokens: run.tokens, state };
sampleToken(logits, state.settings.processors ? {} : { temperature: 1, top_k: topK, top_p: 1 }, 0.5);
new Generator(null, [1n, 2], 1, state.settings).toJSON().step.toFixed();
new Generator(null, BigInt64Array.of(1n), 1, run.settings);
const sparse: SparseRow<Float32Array> = { ids: [3, 1], logits: Float32Array.of(2, 1), vocab: 50_000 };
sampleToken(sparse, { topK: 1 }, 0.5).toFixed();
distribution(sparse, { topK: 1 }).ids.length;
run.stepWith({ ids: BigInt64Array.of(3n), logits: new Float64Array(1), vocab: 50_000 });
new Generator(() => sparse, [], 1, { topK: 1 }).decision(sparse);
Frame.fromSparse(0, sparse).toJSON().length;
// @ts-expect-error frames hold f32
Frame.fromSparse(0, { ids: [3], logits: new Float64Array(1), vocab: 9 });
// @ts-expect-error what is unknown needs a size
sampleToken({ ids: [3], logits }, { topK: 1 }, 0.5);
const verdict: Verdict = verify(record, claim);
switch (verdict.verdict) {
  case "match":
    verdict.steps.toFixed();
    break;
  case "diverged":
    if (verdict.why === "logits") verdict.expected.toUpperCase();
    if (verdict.why === "draw") verdict.claimed.uniform.toFixed();
    if (verdict.why === "settings") verdict.expected.top_p.toFixed();
    break;
  case "refused":
    verdict.code.toUpperCase();
    break;
  default:
    verdict satisfies never;
}
try {
  run.step();
} catch (error) {
  if (error instanceof SamplerError) error.code.startsWith("processor") && error.index === error.value;
}
// @ts-expect-error a plain array would be rounded silently
sampleToken([0, 1, 2], {}, 0);
// @ts-expect-error u is not optional
sampleToken(logits, {});
// @ts-expect-error a misspelt setting
sampleToken(logits, { topk: 3 }, 0);
// @ts-expect-error settings that were not awaited
sampleToken(logits, Promise.resolve({ topK: 3 }), 0);
// @ts-expect-error a setting is a number
sampleToken(logits, { topK: "3" }, 0);
// @ts-expect-error no seed
uniform(undefined, 0);
// @ts-expect-error a model is synchronous
new Generator(async () => logits, [], "1");
// @ts-expect-error null must be said
new Generator(undefined, [], "1");
// @ts-expect-error frames come from its static methods
new Frame();
// @ts-expect-error frames hold f32
Frame.dense(0, new Float64Array(3));
// @ts-expect-error the step is read only
run.position = 3;
const probability: number | null = mosaicDecision(logits, { temperature: 1, topK: 2, topP: 1 }, "42", 0).selected_probability;
mosaicDecision(logits, "greedy", 42n, 0n);
const file: RecordFile = {
  record: 3,
  identity: {
    ...release(),
    model: { name: "m", sha256: null, arithmetic: null, tokenizer_sha256: null, vocab: 64 },
    constraint: null,
  },
  start: state,
  tokens: [1],
  draws_used: 1,
  frames: [null],
  decisions: null,
  stop: { max_tokens: 1, end_tokens: null, reason: "length" },
};
const parted = firstDivergence(file, file, { values: true });
parted.first?.what satisfies string | undefined;
const traced = firstDivergence([run.trace(logits)], { traces: [run.trace(logits, { redact: true })] });
traced.beside.map(({ field }) => field.toUpperCase());
// @ts-expect-error a record cannot be compared with traces
firstDivergence(file, [run.trace(logits)]);
if (parted.outcome === "insufficient") parted.missing.length.toFixed();
const derived: string = deriveSeed(42n, "draft-model", 0);
Generator.replay(model, state).free();
Generator.newCandidate(model, state, 1n).free();
Generator.resume(null, state).free();
const loaded = loadState(JSON.parse("{}"));
if (loaded.contract === "quillmate-v1") Generator.fromState(null, loaded);
else if (mosaicTrace(loaded, logits, { redact: true }).contract !== "mosaic-splitmix64-top-k-top-p-v1") throw new Error("never");
else mosaicStep(loaded, logits).state.draws.toFixed();
// @ts-expect-error the older contract has no defaults
mosaicDecision(logits, { temperature: 1 }, "42", 0);
// @ts-expect-error a state's seed is text
state.seed = 42;

export { bits, derived, dtype, judged, layout, most, probability, schema, token, topK, y };
