/* tslint:disable */
/* eslint-disable */
/** One row of logits, one number per token id. `-Infinity` bans a token; NaN and `+Infinity` are refused. */
export type Logits = Float32Array | Float64Array | HalfLogits;

/** A `Float16Array`, described structurally because TypeScript's libraries before 5.8 lack it. Its values widen exactly. */
export interface HalfLogits {
    readonly [Symbol.toStringTag]: "Float16Array";
    readonly BYTES_PER_ELEMENT: number;
    readonly length: number;
    [index: number]: number;
}

/**
 * A row of which only the best logits are known, such as an API's list of top log-probabilities, which can be used as logits.
 * The caller must ensure that no other token has a logit above the lowest finite one here; this cannot be checked. A token
 * that is not listed is **unknown**, not banned: settings that depend on it are refused with `frame_insufficient`. In
 * general n logits suffice for a top-k of n - 1, because an unknown token with a lower id may tie with the lowest logit. So
 * ask for one logit more than top-k. Without top-k, or with processors, all V are needed.
 */
export interface SparseRow<L extends Logits = Logits> {
    /** In any order, each once, below `vocab`. */
    ids: TokenIds;
    /** The logit of each id; `-Infinity` is a token known to be banned. */
    logits: L;
    /** The size of the vocabulary, V. */
    vocab: number;
}

/** A 64-bit seed: a bigint, a decimal string, or a safe non-negative integer. Anything else is refused. */
export type Seed = bigint | string | number;

/** Token ids: integers from 0 to 2^32 - 1, as numbers or, as 64-bit tensors have them, bigints. */
export type TokenIds = Uint32Array | Int32Array | BigInt64Array | BigUint64Array | readonly (number | bigint)[];

/** Sampling settings. A missing or `undefined` field takes its default; an invalid value is refused, never corrected. */
export interface Settings {
    /** Finite and at least 0. 0 is greedy: the best logit, lowest id on ties; the other two then have no effect. Default 1. */
    temperature?: number;
    /** An integer from 0 to 2^32 - 1. Keeps the k highest logits; 0 is off. Default 0. */
    topK?: number;
    /** From 0 to 1. Keeps the most probable tokens until their sum reaches this; 1 is off. Default 1. */
    topP?: number;
    /** Alias of `topK`, as in a stored state, so that `state.settings` can be passed. Giving both is refused. */
    top_k?: number;
    /** Alias of `topP`, as in a stored state. */
    top_p?: number;
}

/** Settings in which all three fields are required, in either spelling. */
export type AllSettings = { temperature: number } & ({ topK: number } | { top_k: number }) & ({ topP: number } | { top_p: number });

/** Settings for one row without a run. Processors are not possible, because there is no history. */
export type RowSettings = Settings & { processors?: never };

/** Which tokens count as a processor's history. */
export interface Window {
    /** How many of the last tokens count, 1 or more. Default: all. */
    window?: number;
    /** Whether the prompt counts. Default true. */
    prompt?: boolean;
}

/**
 * One processor: it changes the logits before temperature, top-k and top-p. The rule of each is an equation in
 * CONTRACT.md, section "Processors". Lists of ids are token ids.
 */
export type Processor = ProcessorV1 | ProcessorV2;

/** Version 1 of every rule. Rules with a version 2 keep it so that stored runs replay. */
export type ProcessorV1 = { version: 1 } & (
| ({ name: "repetition_penalty"; penalty: number; exempt?: number[] } & Window)
| ({ name: "frequency_penalty"; penalty: number; exempt?: number[] } & Window)
| ({ name: "presence_penalty"; penalty: number; exempt?: number[] } & Window)
| ({ name: "dry"; multiplier: number; base: number; allowed_length: number; breakers?: number[][] } & Window)
| ({ name: "no_repeat_ngram"; size: number } & Window)
| { name: "bad_words"; words: number[][] }
| { name: "logit_bias"; biases: [id: number, bias: number][] }
| { name: "allow"; tokens: number[] }
| { name: "deny"; tokens: number[] }
| { name: "forced_prefix"; tokens: number[] }
| { name: "min_length"; length: number; end_tokens: number[] }
| { name: "forced_end"; length: number; end_tokens: number[] }
| { name: "temperature"; temperature: number }
| { name: "top_k"; k: number }
| { name: "top_p"; p: number; min_keep?: number }
| { name: "min_p"; p: number; min_keep?: number }
| { name: "typical"; p: number; min_keep?: number }
| { name: "epsilon"; cutoff: number; min_keep?: number }
| { name: "eta"; cutoff: number; min_keep?: number }
| { name: "top_n_sigma"; n: number; min_keep?: number }
| { name: "xtc"; probability: number; threshold: number; exempt?: number[] }
);

/** Version 2 of rules whose version 1 differs from its source. Use these. */
export type ProcessorV2 = { version: 2 } & (
| ({ name: "dry"; multiplier: number; base: number; allowed_length: number; breakers?: number[][] } & Window)
| { name: "top_p"; p: number; min_keep?: number }
| { name: "typical"; p: number; min_keep?: number }
);

/** The settings of a run: sampling settings and processors. */
export interface RunSettings extends Settings {
    /** Applied in this order; each name at most once. Default none. */
    processors?: readonly Processor[];
}

// The forms. Made by `make forms`.

/**
 * The whole state of a run as plain JSON: store it, send it, resume from it. Its next token depends on this and the
 * logits alone. A reader also checks that `step` is the number of tokens and that the seed is below 2^64.
 */
export interface GeneratorState {
    /** Which arithmetic the run follows. */
    contract: "quillmate-v1";
    /** Version of this form. */
    format: 1;
    /** Unsigned 64-bit integer in decimal. Text, because JavaScript numbers lose bits above 2^53. */
    seed: string;
    /** Tokens emitted so far, always `tokens.length`; the next token uses `uniform(seed, step, 0)`. */
    step: number;
    /** Token ids the run started from. */
    prompt: number[];
    /** Token ids emitted so far, in order. */
    tokens: number[];
    /** What chooses each token. */
    settings: StoredSettings;
}

/** The settings of a run as a state has them. */
export interface StoredSettings {
    /** 0 is greedy. */
    temperature: number;
    /** 0 is off. */
    top_k: number;
    /** 1 is off; 0 keeps one token. */
    top_p: number;
    /**
     * What changes the logits before temperature, top-k and top-p, in this order; each name at most once. Absent where
     * there are none.
     */
    processors?: Processor[];
}

/**
 * A stored run as one JSON file, form 3. `null` is what nobody recorded. A reader also checks that `start` is a state,
 * that frames and decisions have one entry for each token, that frame i is intact and for step `start.step + i`, and
 * that `draws_used` is the number of tokens, or 0 where temperature is 0. `firstDivergence` reads forms 1 and 2 as
 * well; form 2 is this one without `environment`.
 */
export interface RecordFile {
    /** Version of this form. */
    record: 3;
    /** What a replay depends on besides the start, and the circumstances. */
    identity: Identity;
    /** The state before the first token: contract, seed, prompt ids, settings with their processors. */
    start: GeneratorState;
    /** Emitted after the start. */
    tokens: number[];
    /** Uniform numbers that decided the tokens: one a token, 0 where temperature is 0. */
    draws_used: number | null;
    /** Base64, frame i for step `start.step + i`. */
    frames: (string | null)[] | null;
    /** What was decided at each step, where it was kept. */
    decisions: Decision[] | null;
    /** When the run was to stop, and why it did. */
    stop: Stop;
}

/**
 * What a run's replay depends on besides its start, and what it was made in. `null` is what nobody recorded; it is
 * never made up.
 */
export interface Identity {
    /** The release of quillmate-sampler that chose the tokens. */
    crate_version: string | null;
    /** The target it was built for, such as `wasm32-unknown-unknown`. */
    target: string | null;
    /** The model whose logits these are. */
    model: ModelIdentity;
    /** The constraint tokens were chosen under, by name and version; `null`: there was none. */
    constraint: string | null;
    /** The circumstances, on which no replay depends. */
    environment: Environment;
}

/** Which model gave the logits, and what computed them. */
export interface ModelIdentity {
    /** A name for people; no comparison looks at it. */
    name: string | null;
    /** SHA-256 of the model file, in hex. */
    sha256: string | null;
    /** What computed with it, by name and version. */
    arithmetic: string | null;
    /** SHA-256 of the tokenizer, in hex. */
    tokenizer_sha256: string | null;
    /** How many tokens the vocabulary has. */
    vocab: number | null;
}

/**
 * The circumstances a run was made in. None of it changes a bit, so nothing is refused for it. It is reported beside a
 * difference, to help explain one. A run that went on in other circumstances names all of them: `4, then 2`.
 */
export interface Environment {
    /**
     * What the crate that chose the tokens was built with: cargo features, then instruction sets, each with a plus.
     */
    build_features: string | null;
    /** The server that ran it: its version, and the cargo features it was built with. */
    server: string | null;
    /** What the processor that computed the logits offers, as far as kernels could use it, such as `avx2 f16c`. */
    cpu_features: string | null;
    /** Which kernels computed them, by name: `avx2`, `plain`. */
    kernels: string | null;
    /** How many threads did, in decimal. */
    threads: string | null;
    /** How many tokens were drafted for a pass at most, in decimal; `0`: speculation was off. */
    drafts: string | null;
}

/** What was decided at a step, and from what. */
export interface Decision {
    /** The token. */
    token_id: number;
    /**
     * How many tokens it was chosen among: after processors, top-k and top-p when sampling; all allowed ones when greedy.
     */
    candidate_count: number;
    /** The token's probability among these; `null` when greedy. */
    selected_probability: number | null;
    /** The uniform number that chose it, in [0, 1); `null` when greedy. */
    random_draw: number | null;
    /** The index of that number in its stream, from 0; `null` when greedy. */
    draw_index: number | null;
    /** The name of the contract that decided. */
    algorithm_version: string;
}

/** When a run stops, and why it did. */
export interface Stop {
    /** The most tokens it was to emit after its start. */
    max_tokens: number | null;
    /** The tokens after which a text is over. */
    end_tokens: number[] | null;
    /** Why it is over: `length`, `end_token`, `stopped`, or a code. */
    reason: string | null;
}

/** Why a token was chosen, stage by stage: at most 25 stages of five tokens, whatever the vocabulary. */
export interface Trace {
    /** The contract. */
    contract: "quillmate-v1";
    /** The step. */
    step: number;
    /**
     * SHA-256 of the whole row as it came from the model, in hex: of its numbers as little-endian binary64. −0 is
     * written as 0, except for a greedy decision of the older contract, which tells them apart. Left out where redacted,
     * and in traces made before it was recorded. The stages name the best five logits; the digest shows that all others
     * are equal.
     */
    logits_sha256?: string;
    /** The stages in their order. */
    stages: TraceStage[];
    /** The uniform number the walk was made with; `null` when greedy, and where redacted. */
    draw: number | null;
    /** The token that was chosen; `null` where redacted. */
    token: number | null;
    /** Its probability among those left; `null` when greedy, and where redacted. */
    probability: number | null;
}

/** What one stage left. */
export interface TraceStage {
    /**
     * `logits` (what came from the model), a processor's name, then `greedy`, or `top_k`, `temperature` and `top_p`.
     * Under the older contract: `logits`, then `greedy`, or `scaled_logits`, `top_k`, `softmax` and `top_p`.
     */
    stage: string;
    /** How many tokens are left. */
    candidates: number;
    /** How many this stage removed. */
    removed: number;
    /** The best five at most, by logit or probability, equal ones by id; empty where redacted. */
    top: TopCandidate[];
    /** The uniform number of the stage itself, where it drew one (XTC); left out where redacted. */
    draw?: number;
}

/** One of the best tokens a stage of a trace left. */
export type TopCandidate = { id: number; logit: number } | { id: number; probability: number };

/** The state of a run of the older contract. A greedy run has no draws, a sampled one has a draw for each token. */
export interface MosaicState {
    /** Which arithmetic the run follows. */
    contract: "mosaic-splitmix64-top-k-top-p-v1";
    /** Version of this form. */
    format: 1;
    /** Unsigned 64-bit integer in decimal. */
    seed: string;
    /** Draws consumed so far. */
    draws: number;
    /** Token ids the run started from. */
    prompt: number[];
    /** Token ids emitted so far, in order. */
    tokens: number[];
    /** How each token is chosen. */
    strategy: StoredStrategy;
}

/** How a run of the older contract chooses its tokens. */
export type StoredStrategy = { kind: "greedy" } | { kind: "sample"; temperature: number; top_k: number; top_p: number };

/** What a check of a claim found. */
export type Verdict =
| {
    verdict: "match";
    /** How many were recomputed; at least 1. */
    steps: number;
}
| {
    verdict: "diverged";
    /** The first step that differs, counted from the start of the run. */
    step: number;
    /** What the record gives at that step; `null` when it has none. */
    expected_token: number | null;
    /** What the claim says; `null` when it has none. */
    claimed_token: number | null;
    /** For people. */
    message: string;
} & (
| { why: "prompt"; index: number; expected: number | null; claimed: number | null }
| { why: "settings"; expected: StoredSettings; claimed: StoredSettings }
| { why: "draw"; expected: ClaimedDraw; claimed: ClaimedDraw }
| { why: "logits"; expected: string; claimed: string }
| { why: "token" }
)
| {
    verdict: "refused";
    /** Stable, for programs. */
    code: string;
    /** For people. */
    message: string;
};

/** A seed and the uniform number it gives at the step in question. */
export interface ClaimedDraw {
    /** Decimal. */
    seed: string;
    /** In [0, 1). */
    uniform: number;
}

/** What differs: the record's value and the claim's. */
export type Why =
| { why: "prompt"; index: number; expected: number | null; claimed: number | null }
| { why: "settings"; expected: StoredSettings; claimed: StoredSettings }
| { why: "draw"; expected: ClaimedDraw; claimed: ClaimedDraw }
| { why: "logits"; expected: string; claimed: string }
| { why: "token" };

/** What a comparison found. */
export interface Comparison {
    /**
     * Whether they are the same. `same` needs evidence for every part of every step; without it the outcome is
     * `insufficient`. Traces hold neither input ids nor all settings nor the stop, so two lists of them are never `same`.
     */
    outcome: ComparisonOutcome;
    /** The whole in words. What differs in what made the records comes first. */
    paragraph: string;
    /**
     * What made the records, as far as it differs or one does not say it. It is no difference of the runs by itself.
     */
    release: ReleaseField[];
    /** What differs and had no effect on the runs. */
    beside: WithoutEffect[];
    /** The first difference of the runs. */
    first: Difference | null;
    /** The first step whose tokens differ, which may come later. */
    first_token: number | null;
    /** What could not be compared up to there. */
    missing: MissingEvidence[];
    /** Steps that were compared and found without difference. */
    steps: number;
}

/** What came of a comparison. */
export type ComparisonOutcome = "same" | "diverged" | "insufficient";

/** A difference in what made two records. */
export interface ReleaseField {
    /** Which, such as `target` or `threads`; `environment` where one record says nothing of any circumstance. */
    field: string;
    /** What the first record says; `null`: nothing. */
    first: string | null;
    /** What the second record says; `null`: nothing. */
    second: string | null;
    /** Whether it is of the `Environment`, on which no replay depends. */
    circumstance: boolean;
}

/** Something that differs and had no effect on the run, such as the seeds of two runs in which no draw was made. */
export interface WithoutEffect {
    /** Which, such as `seed`, `top_k`, `top_p`, `step`; for traces `xtc`. */
    field: string;
    /** Why it had no effect, in words. */
    detail: string;
    /** What the first and the second say, where values were asked for. */
    values?: [unknown, unknown];
}

/** The first difference. */
export interface Difference {
    /** In which part of the run. */
    what: RunPart;
    /** At which step, counted in the first record as states count them; for input ids, `null`. */
    step: number | null;
    /**
     * Where in it, for programs: `index 3`, `emitted`, `rank 2`, `vocabulary`, `top_k`, `processors[0]`, `constraint`,
     * `count`, `probability`, `index`, `value`, `id`, `tokens`, `max_tokens`, `end_tokens`, `reason`; for traces also
     * `contract`, `stages[1]`, `digest` or the name of a stage.
     */
    at: string;
    /** The same in words. */
    detail: string;
    /** Checksums of the frames, or digests of the rows, where the logits differ. */
    digests?: [string, string];
    /** What stands there in the first and in the second record, where values were asked for. */
    values?: [unknown, unknown];
}

/** What a step is made of, in the order it is compared. */
export type RunPart = "input_ids" | "logits" | "settings" | "candidates" | "draw" | "token" | "stop";

/** Evidence that is not there. */
export interface MissingEvidence {
    /** Of which part of the run. */
    what: RunPart;
    /** Which record, or list of traces, lacks it. */
    record: Lacking;
    /** The first step that lacks it; `null` where it belongs to no step. */
    step: number | null;
}

/** Which of the two that are compared, or both. */
export type Lacking = "first" | "second" | "both";

// The end of the forms.

/** Gives the next row of logits for a context (prompt, then emitted tokens). Synchronous; for logits that arrive later use `stepWith`. */
export type Model = (tokens: Uint32Array) => Logits | SparseRow;

/**
 * The error of every refusal, with a stable `code`. Codes are part of the contract, messages are not. If two copies of this
 * package are loaded, each has its own class; `name` and `code` are the same in both.
 *
 * CONTRACT.md, section "Error codes", lists all codes. These occur in JavaScript only: `not_initialized` (before `init()`),
 * `freed` (after `free()`), `generator_busy` (a model that steps or frees its own generator), `not_cloneable`,
 * `array_detached` and `logits_buffer_detached` (memory that was detached), `receiver_type` (a method called on another
 * object), `frame_type`, `frame_constructor`, and for arguments of the wrong type `settings_type`, `logits_type`,
 * `tokens_type` and others with this ending.
 */
export class SamplerError extends Error {
    constructor(code: string, message: string);
    name: "SamplerError";
    code: string;
    /** The first offending index, where there is one. */
    index?: number;
    /** The offending value, where there is one. */
    value?: unknown;
    /** The row of a batch or chain it speaks of, where there is one. */
    row?: number;
    /** What a model threw, where `code` is `model_failed`. */
    cause?: unknown;
}

/**
 * Returns a view of one row in wasm memory: filled and passed as logits, it is not copied. All callers **share one buffer**,
 * so fill it right before the call that reads it, and call this function again each time. A call is cheap; it returns the same
 * view until memory grows, which detaches the view (the next call returns a new one, and the old one is refused with
 * `logits_buffer_detached`). A view of another length shows the same memory. The memory is never freed: 4 bytes per logit of
 * the largest row requested, at most twice that.
 *
 * @param vocab how many logits, from 1
 */
export function logitsBuffer(vocab: number): Own<Float32Array>;

/**
 * Chooses one token from one row of logits. At temperature 0 `topK`, `topP` and `u` are ignored, even if out of range.
 *
 * @param settings `{temperature = 1, topK = 0, topP = 1}`
 * @param u the uniform number, 0 <= u < 1; may be left out at temperature 0
 * @returns the token's id
 */
export function sampleToken(logits: Logits | SparseRow, settings: RowSettings | undefined, u: number): number;
export function sampleToken(logits: Logits | SparseRow, settings: RowSettings & { temperature: 0 }): number;

/** The uniform number in [0, 1) at (seed, step, stream): output number `step` of the SplitMix64 stream. */
export function uniform(seed: Seed, step: number | bigint, stream?: number | bigint): number;

/** The 64 bits behind `uniform`. */
export function draw(seed: Seed, step: number | bigint, stream?: number | bigint): bigint;

/** e^x, correctly rounded. NaN for NaN. */
export function exp(x: number): number;

/** A probability distribution over tokens: ids ascending, with the probability of each. */
export interface Distribution {
    ids: Own<Uint32Array>;
    probabilities: Own<Float64Array>;
}

/**
 * The distribution of the next token under these settings, after temperature, top-k and top-p. Pass this, and not a raw
 * softmax, to `speculativeStep`.
 */
export function distribution(logits: Logits | SparseRow, settings?: RowSettings): Distribution;

/**
 * Chooses a token for each of B rows in one call. Result i is that of `sampleToken` for row i; for a refused row it is the
 * error (with a `row` number), and the other rows are not affected.
 *
 * @param logits B * vocab numbers, row after row
 * @param settings one for each row, or one object for all
 * @param u B uniform numbers; that of a row at temperature 0 is ignored
 */
export function sampleBatch(
logits: Logits,
vocab: number,
settings: readonly RowSettings[] | RowSettings | undefined,
u: Float64Array | readonly number[],
): (number | SamplerError)[];

/** Gives one row of logits for each context, all of one length. Synchronous. */
export type BatchModel = (contexts: Uint32Array[]) => readonly Logits[];

/**
 * Advances every generator by one token, the same as when stepping alone. A generator whose row is refused does not advance,
 * and its result is the error (with a `row` number).
 *
 * `model` is called once for all contexts; if it throws, or returns another number of rows or rows of different lengths,
 * no generator advances. Without `model`, each generator calls its own, all of them before the first advances, and a failure
 * affects only that generator: its result is `model_missing` if it has no model, or `model_failed` if the model threw (with
 * what was thrown as `cause`).
 */
export function stepBatch(generators: readonly Generator[], model?: BatchModel): (number | SamplerError)[];

/**
 * Checks one draft token: accepts it when `uAccept * q[d] < p[d]`, otherwise draws from `max(0, p - q)`.
 *
 * @param p the target's distribution, by token id; @param q the distribution the draft was drawn from
 */
export function speculativeStep(
p: Float64Array,
q: Float64Array,
draftToken: number,
uAccept: number,
uResample: number,
): { token: number; accepted: boolean };

/** A draft token and the distribution it was drawn from. */
export interface Draft extends Distribution {
    token: number;
}

/** The result of a chain of drafts: the accepted ones, then one more token. */
export interface Chain {
    tokens: number[];
    /** How many drafts were accepted: `tokens.length - 1`. */
    accepted: number;
}

/** What the older contract decided; when greedy, the count is the number of logits. */
export interface MosaicDecision extends Decision {
    algorithm_version: "mosaic-splitmix64-top-k-top-p-v1";
}

/** The same under the older contract. */
export interface MosaicTrace extends Omit<Trace, "contract"> {
    contract: "mosaic-splitmix64-top-k-top-p-v1";
}

/**
 * Replays one decision of the older contract. Its settings are stricter (temperature above 0, topK from 1 to the number
 * of logits, topP above 0) and no logit may be infinite.
 *
 * @param drawIndex which output of the seed's sequence the decision uses, from 0
 */
export function mosaicDecision(
logits: Logits,
strategy: "greedy" | AllSettings,
seed: Seed,
drawIndex: number | bigint,
): MosaicDecision;

/**
 * Checks a stored state of either contract and returns it unchanged. An unknown contract is refused (`contract_unknown`), and
 * so is any other fault. `Generator.fromState` resumes a `GeneratorState`, `mosaicStep` a `MosaicState`.
 */
export function loadState(state: unknown): GeneratorState | MosaicState;

/** Emits the next token of a run of the older contract: the decision, and the state after it. */
export function mosaicStep(state: MosaicState, logits: Logits): { decision: MosaicDecision; state: MosaicState };

/** Why these logits decide the next token of a run of the older contract. Emits nothing; `redact` as in `Generator.trace`. */
export function mosaicTrace(state: MosaicState, logits: Logits, options?: { redact?: boolean }): MosaicTrace;

/**
 * Derives a separate seed for a purpose such as `draft-model` or `repair-attempt-1`, as a decimal string: HKDF-SHA256 of root,
 * label and attempt. The root may be public if anybody should be able to repeat the runs; it must be secret (and random) if
 * nobody may guess a draw. Do not use the root or a derived seed as a password, a token or a key.
 *
 * @param label 1 to 255 bytes of UTF-8, compared by its bytes
 */
export function deriveSeed(root: Seed, label: string, attempt: number | bigint): string;

/** A fresh seed from the platform's secure random source (Web Crypto), as a decimal string. */
export function randomSeed(): string;

/** The JSON Schema of `GeneratorState`, as JSON text. */
export function stateSchema(): string;

/**
 * One run: emits tokens one at a time, and can be stored and resumed after each. A call that throws leaves it unchanged.
 *
 * All rows must be as long as the first row that gave a token; another length is refused (`logits_length_changed`). A
 * generator cannot be cloned, posted to a worker or spread (`not_cloneable`); send its `state()`.
 */
export class Generator {
    /** @param model may be `null` when logits come through `stepWith` or `stepWithFrame` only */
    constructor(model: Model | null, prompt: TokenIds, seed: Seed, settings?: RunSettings);
    /** Resumes a stored run; the next token is the one the run would have emitted. */
    static fromState(model: Model | null, state: GeneratorState): Generator;
    /** Replay: repeats the run from step 0 with the same seed. The same logits give the same tokens. */
    static replay(model: Model | null, state: GeneratorState): Generator;
    /**
     * New candidate: another run from the same prompt under the same settings, from step 0, with the seed
     * `deriveSeed(state.seed, "candidate", attempt)`.
     */
    static newCandidate(model: Model | null, state: GeneratorState, attempt: number | bigint): Generator;
    /** Resume: the rest of the same run. The same as `fromState`. */
    static resume(model: Model | null, state: GeneratorState): Generator;
    /** Asks the model for logits and emits the next token. What the model throws is rethrown unchanged. */
    step(): number;
    /** Emits the next token from these logits. */
    stepWith(logits: Logits | SparseRow): number;
    /** Emits the next token from a frame, which must be for this step and suffice for the settings. */
    stepWithFrame(frame: Frame): number;
    /**
     * Emits up to `drafts.length + 1` tokens, drafter-invariant: the text is the one without speculation, whatever is
     * drafted. Row i is the target's after the context and the first i drafts; there is one row more than drafts.
     */
    stepWithDrafts(rows: readonly Logits[], drafts: TokenIds): Chain;
    /** Emits up to `drafts.length + 1` tokens by the p/q rule: distributed as without speculation. */
    stepSpeculative(rows: readonly Logits[], drafts: readonly Draft[]): Chain;
    /** What would be decided from these logits. Emits nothing. When greedy, a `SparseRow` is refused, because the count needs all tokens. */
    decision(logits: Logits | SparseRow): Decision;
    /**
     * Why that token would be chosen, in at most 25 stages of five tokens. Emits nothing, and is computed only on request. A
     * `SparseRow` is refused unless it has all logits, because the stages count and rank all tokens.
     *
     * @param options `redact`: omits ids, logits, probabilities, digest and draws, from which the text or the seed could be
     *   computed. Names of stages and counts of tokens remain, up to XTC, where the stages end, because its counts reveal its
     *   draw. Somebody who has the model and the prompt can still test a guessed text against the counts.
     */
    trace(logits: Logits | SparseRow, options?: { redact?: boolean }): Trace;
    /** A plain object, safe for `JSON.stringify`. */
    state(): GeneratorState;
    /** The same: what `JSON.stringify` writes. */
    toJSON(): GeneratorState;
    /** Tokens emitted so far (a copy). */
    readonly tokens: Own<Uint32Array>;
    /** The prompt (a copy). */
    readonly prompt: Own<Uint32Array>;
    /** The step the next token will have: the number of tokens emitted so far. */
    readonly position: number;
    /** The seed, in decimal. */
    readonly seed: string;
    /** `processors` is absent where there are none. */
    readonly settings: { temperature: number; topK: number; topP: number } & Pick<RunSettings, "processors">;
    /** Frees the memory; later calls are refused (`freed`), another `free()` does nothing. Refused while the model is being called. */
    free(): void;
    [Symbol.dispose](): void;
}

/** The logits of one step in a compact, lossless form with a checksum. It cannot be cloned or posted (`not_cloneable`); send `encode()`. */
export class Frame {
    private constructor();
    /** The smallest lossless frame that suffices for these settings: sparse when they are greedy or have a top-k and no processors, or when few tokens are allowed; else dense. */
    static forSettings(step: number | bigint, logits: Float32Array | HalfLogits, settings: RunSettings): Frame;
    /** A frame that suffices for all settings. */
    static dense(step: number | bigint, logits: Float32Array | HalfLogits): Frame;
    /** A frame with the k best logits: enough for every top-k from 1 to k, and for greedy. */
    static sparse(step: number | bigint, logits: Float32Array | HalfLogits, k: number): Frame;
    /**
     * A frame of a row of which only the best logits are known. `maxTopK` says what it suffices for; logits whose rank is not
     * certain are left out. Refused if not even the best token is certain.
     */
    static fromSparse(step: number | bigint, row: SparseRow<Float32Array | HalfLogits>): Frame;
    /** Reads a frame; one that is damaged, truncated or has extra bytes is refused. */
    static decode(bytes: Uint8Array): Frame;
    encode(): Own<Uint8Array>;
    /** What `JSON.stringify` writes: the bytes of `encode()` in base64, as a `RecordFile` has them. */
    toJSON(): string;
    readonly step: number;
    readonly vocab: number;
    readonly layout: "dense" | "sparse";
    readonly dtype: "f32" | "bf16" | "f16";
    /** The largest top-k this frame suffices for; `null` when it suffices for all settings. */
    readonly maxTopK: number | null;
    /** CRC-32 of the frame's bytes, 8 hex digits. */
    readonly checksum: string;
    sufficesFor(settings: RunSettings): boolean;
    /**
     * The row as `stepWithFrame` sees it: for a sparse frame, -Infinity where no logit was sent. Refused where the frame
     * does not suffice. Do not make a new frame from it: a logit that was not sent looks the same as a banned one.
     */
    logits(settings: RunSettings): Own<Float32Array>;
    /** Frees the memory; later calls are refused (`freed`), another `free()` does nothing. */
    free(): void;
    [Symbol.dispose](): void;
}

/** A stored run: where it started, and the frame of each step from there. */
export interface RunRecord {
    start: GeneratorState;
    frames: readonly Uint8Array[];
}

/** What a client claims to have sampled. */
export interface Claim {
    /** The tokens emitted after the record's start. */
    tokens: TokenIds;
    /** The state after the last of them. */
    state: GeneratorState;
    /** Checksum of the frame each token was sampled from (`Frame.checksum`); optional evidence. */
    frame_checksums?: readonly string[];
}

/** Recomputes a claim from a record, with the same function as the server. */
export function verify(record: RunRecord, claim: Claim): Verdict;

/** One trace a step, in the order of the steps: as a list, or as the file that `first-divergence` reads. */
export type Traces = readonly (Trace | MosaicTrace)[] | { traces: readonly (Trace | MosaicTrace)[] };

/**
 * Compares two records: input ids, then for each step logits, settings and processors, candidates, draw and token, then the stop.
 * Raw values (ids, logits, probabilities, seeds, draws) are left out unless `values` is true.
 */
export function firstDivergence(
first: RecordFile,
second: RecordFile,
options?: { values?: boolean },
): Comparison;
/**
 * Compares two lists of traces, step by step, as far as both hold them. A record cannot be compared with traces
 * (`record_and_traces`).
 */
export function firstDivergence(first: Traces, second: Traces, options?: { values?: boolean }): Comparison;

/** What this build reports about itself in a record: all of `identity` but `model` and `constraint`. */
export function release(): { crate_version: string; target: string; environment: Environment };

/** A typed array over an `ArrayBuffer`, which `Blob` and `fetch` ask for from TypeScript 5.7 on; before, any typed array. */
type Own<View extends { slice(): unknown }> = ReturnType<View["slice"]>;

declare global {
  // In the library of TypeScript 5.2 and later, if the project has it.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}

/** What the platform's own types call by this name; nothing where the project has none of them (`lib: ["ES2022"]`). */
type Platform<Name extends string> = typeof globalThis extends { [Key in Name]: { prototype: infer Instance } } ? Instance : never;
type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Instance } } } ? Instance : never;
type WasmMemory = typeof globalThis extends { WebAssembly: { Memory: { prototype: infer Instance } } } ? Instance : unknown;

/** The bytes of `sampler_bg.wasm`, or what it was compiled to. */
export type SyncInitInput = ArrayBuffer | Uint8Array | WasmModule;

/** The same, or where to fetch it. */
export type InitInput = SyncInitInput | string | Platform<"URL"> | Platform<"Request"> | Platform<"Response">;

/** The loaded wasm. Its other exports are the package's own affair. */
export interface InitOutput {
  /** What all objects of this package live in. It grows, and never shrinks. */
  readonly memory: WasmMemory;
}

// Without this line every type of this file would be exported.
export {};
