// Processors, decisions and traces through the package: the vectors, round trips, and hostile parameters.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Frame, Generator, uniform } from "@quillmate/sampler";
import { fromBits, model, numbers, refused, row, toBits } from "./support.mjs";

const file = (name) => new URL(`../vectors/${name}`, import.meta.url);
const vectors = JSON.parse(readFileSync(file("processors.json"), "utf8"));

const stateOf = ({ processors, prompt, tokens, seed }) => ({
  contract: "quillmate-v1",
  format: 1,
  seed,
  step: tokens.length,
  prompt,
  tokens,
  settings: { temperature: 0, top_k: 0, top_p: 1, processors },
});

test("every row of an implementation that shares no code", () => {
  for (const one of vectors.processors) {
    const run = Generator.fromState(null, stateOf(one));
    const logits = numbers(one.logits);
    if (one.code) {
      refused(one.code, () => run.trace(logits));
      run.free();
      continue;
    }
    const left = one.row_bits.map(fromBits);
    const best = left.map((logit, id) => ({ id, logit })).filter(({ logit }) => logit !== -Infinity);
    best.sort((a, b) => b.logit - a.logit || a.id - b.id);
    const stage = run.trace(logits).stages.at(-2);
    assert.equal(stage.stage, one.processors.at(-1).name);
    assert.equal(stage.candidates, best.length, one.name);
    assert.deepEqual(stage.top.map(({ id, logit }) => [id, toBits(logit)]), best.slice(0, 5).map(({ id, logit }) => [id, toBits(logit)]), one.name);
    assert.equal(run.stepWith(logits), best[0].id, one.name);
    run.free();
  }
  console.log(`ran ${vectors.processors.length} processor cases`);
});

test("every run of an implementation that shares no code, straight and resumed", () => {
  const bytes = readFileSync(file("golden_run.f32"));
  const logits = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const rows = Array.from({ length: logits.length / 512 }, (_, at) => logits.subarray(at * 512, (at + 1) * 512));
  for (const one of vectors.runs) {
    const stored = JSON.parse(one.state_after_7);
    const straight = Generator.fromState(null, { ...stored, step: 0, tokens: [] });
    rows.forEach((row, at) => {
      if (at === 7) assert.equal(JSON.stringify(straight.state()), JSON.stringify(stored), one.name);
      straight.stepWith(row);
    });
    assert.deepEqual([...straight.tokens], one.tokens, one.name);
    const resumed = Generator.fromState(null, stored);
    for (const row of rows.slice(7)) resumed.stepWithFrame(Frame.dense(resumed.position, row));
    assert.deepEqual(resumed.state(), straight.state(), one.name);
    straight.free();
    resumed.free();
  }
  console.log(`ran ${vectors.runs.length} processed_run cases`);
});

const minP = { name: "min_p", version: 1, p: 0.05 };
const penalty = { name: "repetition_penalty", version: 1, penalty: 1.3, window: 8, prompt: false, exempt: [3] };

test("settings take processors and give them back", () => {
  const settings = { temperature: 0.9, topK: 0, topP: 1, processors: [penalty, minP] };
  const run = new Generator(model, [1, 2], "7", settings);
  assert.deepEqual(run.settings, settings);
  assert.deepEqual(run.state().settings.processors, [penalty, minP]);
  const plain = new Generator(model, [1, 2], "7", { temperature: 0.9 });
  assert.equal("processors" in plain.settings, false);
  assert.equal("processors" in plain.state().settings, false);
  for (let step = 0; step < 20; step++) {
    const resumed = Generator.fromState(model, JSON.parse(JSON.stringify(run.state())));
    assert.equal(resumed.step(), run.step());
    resumed.free();
    plain.step();
  }
  assert.notDeepEqual([...run.tokens], [...plain.tokens]);
  run.free();
  plain.free();
});

test("a frame for processors is whole, and a sparse one does not suffice", () => {
  const settings = { topK: 2, processors: [minP] };
  const logits = row([1], 512);
  const whole = Frame.forSettings(0, logits, settings);
  const sparse = Frame.sparse(0, logits, 2);
  assert.equal(whole.layout, "dense");
  assert.deepEqual([whole.sufficesFor(settings), sparse.sufficesFor(settings), sparse.sufficesFor({ topK: 2 })], [true, false, true]);
  const run = new Generator(null, [1], 1, settings);
  refused("frame_insufficient", () => run.stepWithFrame(sparse));
  refused("frame_insufficient", () => sparse.logits(settings));
  assert.equal(run.position, 0);
  run.stepWithFrame(whole);
  assert.equal(run.position, 1);
  for (const it of [run, whole, sparse]) it.free();
});

test("wrong processors are refused with a code, and make no generator", () => {
  const make = (processors) => () => new Generator(null, [], 1, { processors });
  refused("processor_unknown", make([{ name: "mirostat", version: 1 }]));
  refused("processor_version_unknown", make([{ ...minP, version: 2 }]));
  const error = refused("processor_parameter", make([penalty, { ...minP, p: 1.5 }]));
  assert.deepEqual([error.index, error.value], [1, 1.5]);
  refused("processor_repeated", make([minP, minP]));
  refused("field_unknown", make([{ ...minP, q: 1 }]));
  refused("field_missing", make([{ name: "min_p", version: 1 }]));
  for (const wrong of [5, "min_p", minP, [5], ["min_p"], [[minP]], [null]]) refused("field_type", make(wrong));
  refused("field_type", make([{ ...minP, p: Number.NaN }]));
  const endless = { name: "bad_words", version: 1 };
  endless.words = [endless];
  refused("field_type", make([endless]));
  assert.throws(make([{ ...minP, get p() { throw new RangeError("mine"); } }]), RangeError);
  new Generator(null, [], 1, { processors: undefined }).free();
});

test("a decision and a trace emit nothing and tell what then happens", () => {
  const settings = { temperature: 0.8, topK: 10, topP: 0.9, processors: [penalty, { name: "xtc", version: 1, probability: 0.5, threshold: 0.05 }] };
  const [asked, plain] = [0, 1].map(() => new Generator(model, [1], 5, settings));
  for (let step = 0; step < 20; step++) {
    const logits = row([1, ...plain.tokens]);
    const before = JSON.stringify(asked.state());
    const [decision, trace] = [asked.decision(logits), asked.trace(logits)];
    assert.equal(JSON.stringify(asked.state()), before);
    const token = plain.step();
    assert.equal(asked.step(), token);
    assert.deepEqual([decision.token_id, trace.token], [token, token]);
    assert.deepEqual([decision.random_draw, trace.draw, decision.draw_index, trace.step], [uniform(5, step), uniform(5, step), step, step]);
    assert.deepEqual(trace.stages.map(({ stage }) => stage), ["logits", "repetition_penalty", "xtc", "top_k", "temperature", "top_p"]);
    assert.equal(trace.stages[2].draw, uniform(5, step, 4));
    assert.equal(trace.stages.at(-1).candidates, decision.candidate_count);
    const redacted = asked.trace(row([9]), { redact: true });
    assert.deepEqual([redacted.token, redacted.probability, redacted.stages.flatMap(({ top }) => top)], [null, null, []]);
  }
  refused("field_unknown", () => asked.trace(row([1]), { redacted: true }));
  refused("field_type", () => asked.trace(row([1]), { redact: 1 }));
  refused("logits_nan", () => asked.trace(Float32Array.of(Number.NaN)));
  asked.free();
  plain.free();
});
