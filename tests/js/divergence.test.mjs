// Records as files, lists of traces, and where two of them first differ.
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstDivergence, Frame, Generator, mosaicStep, mosaicTrace, release } from "@quillmate/sampler";
import { refused, row } from "./support.mjs";

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

/** A run of `steps`, as a page would save it. */
function recorded(steps, { seed = "42", prompt = [1, 2, 3], settings = { temperature: 0.8, topK: 20, topP: 0.95 } } = {}) {
  const run = new Generator(null, prompt, seed, settings);
  const start = run.state();
  const frames = [];
  for (let n = 0; n < steps; n++) {
    const frame = Frame.forSettings(n, row([...prompt, ...run.tokens]), settings);
    run.stepWithFrame(frame);
    frames.push(base64(frame.encode()));
    frame.free();
  }
  const { tokens } = run.state();
  run.free();
  const model = { name: "m", sha256: "aa", arithmetic: "x-1", tokenizer_sha256: "bb", vocab: 64 };
  const environment = { ...release().environment, server: "0.1.0", cpu_features: "avx2", kernels: "avx2", threads: "2", drafts: "4" };
  const identity = { ...release(), environment, model, constraint: null };
  const stop = { max_tokens: steps, end_tokens: [0], reason: "length" };
  const draws_used = settings.temperature === 0 ? 0 : steps;
  return { record: 3, identity, start, tokens, draws_used, frames, decisions: null, stop };
}

const good = recorded(10);
const changed = (change) => {
  const record = structuredClone(good);
  change(record);
  return record;
};
const parts = (second, what, step, at) => {
  const found = firstDivergence(good, second);
  assert.equal(found.outcome, "diverged", found.paragraph);
  assert.deepEqual([found.first.what, found.first.step, found.first.at], [what, step, at]);
  assert.equal(found.first.values, undefined);
  return found;
};

test("a record against itself is the same, also after JSON", () => {
  const found = firstDivergence(good, JSON.parse(JSON.stringify(good)));
  assert.equal(found.outcome, "same", found.paragraph);
  assert.deepEqual([found.first, found.first_token, found.missing, found.release, found.steps], [null, null, [], [], 10]);
  assert.match(found.paragraph, /^The runs are the same: 10 steps/);
});

test("this build names itself, and another release is said first", () => {
  assert.match(release().crate_version, /^\d+\.\d+\.\d+/);
  assert.equal(release().target, "wasm32-unknown-unknown");
  assert.match(release().environment.build_features, /\+simd128/);
  assert.deepEqual(Object.values(release().environment).slice(1), [null, null, null, null, null]);
  const found = firstDivergence(good, changed((r) => (r.identity.target = "x86_64-unknown-linux-gnu")));
  assert.equal(found.outcome, "same");
  assert.deepEqual(found.release, [
    { field: "target", first: "wasm32-unknown-unknown", second: "x86_64-unknown-linux-gnu", circumstance: false },
  ]);
  assert.match(found.paragraph, /^The records were not made by the same release: target /);
  const threads = firstDivergence(good, changed((r) => (r.identity.environment.threads = "4, then 2")));
  assert.equal(threads.outcome, "same");
  assert.deepEqual(threads.release, [{ field: "threads", first: "2", second: "4, then 2", circumstance: true }]);
  assert.match(threads.paragraph, /^They were made in other circumstances, on which no replay depends: threads 2 and 4, then 2\./);
  const vocab = firstDivergence(good, changed((r) => (r.identity.model.vocab = 65)));
  assert.deepEqual(vocab.release, [{ field: "vocabulary", first: "64", second: "65", circumstance: false }]);
});

test("form 2 is read, and its circumstances are not known", () => {
  const old = changed((r) => {
    r.record = 2;
    delete r.identity.environment;
  });
  const found = firstDivergence(old, good);
  assert.equal(found.outcome, "same", found.paragraph);
  assert.deepEqual(found.release, [{ field: "environment", first: null, second: "recorded", circumstance: true }]);
  refused("field_unknown", () => firstDivergence({ ...good, record: 2 }, good));
});

test("greedy records of other seeds are the same run, and sets are sets", () => {
  const greedy = { temperature: 0, topK: 0, topP: 1 };
  const [one, other] = ["42", "987654321"].map((seed) => recorded(10, { seed, settings: greedy }));
  const found = firstDivergence(one, other);
  assert.deepEqual([found.outcome, found.first], ["same", null], found.paragraph);
  assert.deepEqual(found.beside, [{ field: "seed", detail: "the seeds differ, and no draw took part" }]);
  assert.doesNotMatch(JSON.stringify(found), /987654321/);
  assert.deepEqual(firstDivergence(one, other, { values: true }).beside[0].values, ["42", "987654321"]);
  const ends = (list) => changed((r) => (r.stop.end_tokens = list));
  assert.equal(firstDivergence(ends([0, 2, 5]), ends([5, 2, 0])).outcome, "same");
  const unsaid = firstDivergence(good, changed((r) => (r.draws_used = null)));
  assert.deepEqual([unsaid.outcome, unsaid.missing], ["insufficient", [{ what: "draw", record: "second", step: null }]]);
});

/** The traces of a run, one a step. */
function traced(steps, { seed = "42", settings = { temperature: 0.8, topK: 20, topP: 0.95 }, redact = false, change = (_) => {} } = {}) {
  const run = new Generator(null, [1, 2, 3], seed, settings);
  const traces = [];
  for (let n = 0; n < steps; n++) {
    const logits = row([1, 2, 3, ...run.tokens]);
    change(logits, n);
    traces.push(run.trace(logits, { redact }));
    run.stepWith(logits);
  }
  run.free();
  return traces;
}

test("lists of traces are compared, and are never enough to call two runs the same", () => {
  const traces = traced(6);
  assert.match(traces[0].logits_sha256, /^[0-9a-f]{64}$/);
  const whole = { record: "both", step: null };
  const missing = [
    { what: "input_ids", ...whole },
    { what: "settings", ...whole },
    { what: "candidates", record: "both", step: 0 },
    { what: "stop", ...whole },
  ];
  for (const second of [traced(6), { traces: traced(6) }, JSON.parse(JSON.stringify(traces))]) {
    const found = firstDivergence(traces, second);
    assert.deepEqual([found.outcome, found.steps, found.first], ["insufficient", 6, null], found.paragraph);
    assert.deepEqual(found.missing, missing);
    assert.match(found.paragraph, /Compared were, of each step/);
  }
  const parted = (second, what, step, at) => {
    const found = firstDivergence(traces, second);
    assert.deepEqual([found.outcome, found.first?.what, found.first?.step, found.first?.at], ["diverged", what, step, at]);
    assert.equal(found.first.values, undefined);
    return found;
  };
  parted(traced(6, { seed: "43" }), "draw", 0, "value");
  const lowest = (logits, n) => {
    if (n === 4) logits[logits.indexOf(Math.min(...logits))] -= 1;
  };
  assert.equal(parted(traced(6, { change: lowest }), "logits", 4, "digest").first.digests.length, 2);
  parted(traced(6, { settings: { temperature: 0, topK: 20, topP: 0.95 } }), "settings", 0, "stages[1]");
  // Two greedy runs of different seeds drew nothing.
  const greedy = (seed) => traced(6, { seed, settings: { temperature: 0 } });
  assert.equal(firstDivergence(greedy("1"), greedy("2")).first, null);
  // What is redacted is missing.
  const redacted = firstDivergence(traces, traced(6, { redact: true }));
  assert.equal(redacted.outcome, "insufficient");
  for (const what of ["logits", "candidates", "draw", "token"])
    assert.ok(redacted.missing.some((it) => it.what === what && it.record === "second"), what);
});

test("a redacted trace holds no id, number or draw", () => {
  const settings = { processors: [{ name: "xtc", version: 1, probability: 0.5, threshold: 0.01, exempt: [] }] };
  for (const trace of [...traced(3, { redact: true }), ...traced(3, { redact: true, settings })]) {
    assert.deepEqual([trace.draw, trace.token, trace.probability, trace.logits_sha256], [null, null, null, undefined]);
    for (const stage of trace.stages) assert.deepEqual([stage.top, stage.draw, stage.stage === "xtc"], [[], undefined, false]);
    assert.ok(trace.stages[0].candidates === 64);
  }
});

test("traces of the older contract: the published run", () => {
  const traces = (seed) => {
    let state = {
      contract: "mosaic-splitmix64-top-k-top-p-v1",
      format: 1,
      seed,
      draws: 0,
      prompt: [1, 2],
      tokens: [],
      strategy: { kind: "sample", temperature: 0.8, top_k: 3, top_p: 0.9 },
    };
    const list = [];
    for (let n = 0; n < 8; n++) {
      list.push(mosaicTrace(state, Float32Array.of(0, 1, 2, 3)));
      state = mosaicStep(state, Float32Array.of(0, 1, 2, 3)).state;
    }
    return list;
  };
  const published = traces("42");
  assert.deepEqual(published.map((trace) => trace.token), [3, 3, 3, 3, 3, 2, 3, 2]);
  for (const [n, trace] of published.entries()) {
    assert.deepEqual([trace.contract, trace.step], ["mosaic-splitmix64-top-k-top-p-v1", n]);
    const stages = trace.stages.map((it) => [it.stage, it.candidates, it.removed]);
    assert.deepEqual(stages, [["logits", 4, 0], ["scaled_logits", 4, 0], ["top_k", 3, 1], ["softmax", 3, 0], ["top_p", 2, 1]]);
    assert.deepEqual(trace.stages[1].top[0], { id: 3, logit: 3.75 });
    assert.deepEqual(trace.stages[4].top, [
      { id: 3, probability: 0.7772998611746912 },
      { id: 2, probability: 0.22270013882530887 },
    ]);
  }
  const run = new Generator(null, [1], "42");
  refused("contract_unknown", () => mosaicTrace(run.state(), Float32Array.of(0)));
  run.free();
  assert.equal(firstDivergence(published, traces("42")).first, null);
  assert.deepEqual(firstDivergence(published, traces("43")).first.what, "draw");
});

test("records and traces are not held against each other, and what is neither is refused", () => {
  const traces = traced(3);
  refused("record_and_traces", () => firstDivergence(good, traces));
  refused("record_and_traces", () => firstDivergence({ traces }, good));
  refused("field_type", () => firstDivergence(traces, [1]));
  refused("field_missing", () => firstDivergence(traces, [{}]));
  refused("field_unknown", () => firstDivergence(traces, { traces, more: 1 }));
  refused("field_type", () => firstDivergence(traces, [traces[1], traces[0]]));
  refused("field_type", () => firstDivergence(traces, [{ ...traces[0], contract: "quillmate-v2" }]));
});

test("each kind of difference is named at its place", () => {
  parts(changed((r) => (r.start.prompt[2] = 9)), "input_ids", null, "index 2");
  parts(changed((r) => (r.start.settings.top_k = 19)), "settings", 0, "top_k");
  parts(changed((r) => (r.identity.constraint = "json-ok-1")), "settings", 0, "constraint");
  parts(recorded(10, { seed: "43" }), "draw", 0, "value");
  parts(recorded(8), "stop", 8, "tokens");
  parts(changed((r) => (r.stop.reason = "stopped")), "stop", 10, "reason");
  for (let n = 0; n < 10; n++) {
    const found = parts(changed((r) => (r.tokens[n] = (r.tokens[n] + 1) % 64)), "token", n, "id");
    assert.match(found.paragraph, /the step gives the first record's/);
    const logits = row([1, 2, 3, ...good.tokens.slice(0, n)]);
    logits[good.tokens[n]] += 0.125;
    const other = changed((r) => (r.frames[n] = base64(Frame.forSettings(n, logits, { temperature: 0.8, topK: 20, topP: 0.95 }).encode())));
    const found2 = firstDivergence(good, other);
    assert.deepEqual([found2.first.what, found2.first.step], ["logits", n]);
    assert.equal(found2.first.digests.length, 2);
  }
});

test("missing evidence is missing, never equal", () => {
  for (const [first, second, record] of [
    [good, changed((r) => (r.frames = null)), "second"],
    [changed((r) => (r.frames[0] = null)), good, "first"],
    [changed((r) => (r.frames = null)), changed((r) => (r.frames = null)), "both"],
  ]) {
    const found = firstDivergence(first, second);
    assert.equal(found.outcome, "insufficient", found.paragraph);
    assert.deepEqual(found.missing, [
      { what: "logits", record, step: 0 },
      { what: "candidates", record, step: 0 },
    ]);
  }
});

test("raw values only when asked for", () => {
  const other = recorded(10, { seed: "987654321" });
  assert.doesNotMatch(JSON.stringify(firstDivergence(good, other, { values: false })), /987654321/);
  const { values } = firstDivergence(good, other, { values: true }).first;
  assert.deepEqual([values[0][0], values[1][0]], ["42", "987654321"]);
});

test("what is no record is refused", () => {
  for (const bad of [null, undefined, 1, "x", () => 1]) refused("field_type", () => firstDivergence(bad, good));
  refused("field_missing", () => firstDivergence(good, {}));
  refused("record_unknown", () => firstDivergence({ ...good, record: 4 }, good));
  refused("field_unknown", () => firstDivergence({ ...good, more: 1 }, good));
  refused("record_lengths", () => firstDivergence({ ...good, tokens: good.tokens.slice(1), draws_used: 9 }, good));
  refused("draws_mismatch", () => firstDivergence({ ...good, draws_used: 9 }, good));
  assert.equal(refused("frame_not_base64", () => firstDivergence(good, changed((r) => (r.frames[3] = "?")))).index, 3);
  refused("frame_step_mismatch", () => firstDivergence(good, changed((r) => (r.frames[3] = r.frames[4]))));
  refused("contract_unknown", () => firstDivergence(good, changed((r) => (r.start.contract = "quillmate-v2"))));
  refused("field_unknown", () => firstDivergence(good, good, { value: true }));
  refused("field_type", () => firstDivergence(good, good, { values: 1 }));
  refused("field_type", () => firstDivergence(good, good, []));
});
