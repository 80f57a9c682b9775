// Records as files, and where two of them first part.
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstDivergence, Frame, Generator, release } from "@quillmate/sampler";
import { refused, row } from "./support.mjs";

const settings = { temperature: 0.8, topK: 20, topP: 0.95 };
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

/** A run of `steps`, as a page would save it. */
function recorded(steps, { seed = "42", prompt = [1, 2, 3] } = {}) {
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
  const identity = { ...release(), model, constraint: null };
  const stop = { max_tokens: steps, end_tokens: [0], reason: "length" };
  return { record: 2, identity, start, tokens, draws_used: steps, frames, decisions: null, stop };
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
  const found = firstDivergence(good, changed((r) => (r.identity.target = "x86_64-unknown-linux-gnu")));
  assert.equal(found.outcome, "same");
  assert.deepEqual(found.release, [{ field: "target", first: "wasm32-unknown-unknown", second: "x86_64-unknown-linux-gnu" }]);
  assert.match(found.paragraph, /^The records were not made by the same release: target /);
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
    const other = changed((r) => (r.frames[n] = base64(Frame.forSettings(n, logits, settings).encode())));
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
  for (const bad of [null, undefined, 1, "x", [], () => 1]) refused("field_type", () => firstDivergence(bad, good));
  refused("field_missing", () => firstDivergence(good, {}));
  refused("record_unknown", () => firstDivergence({ ...good, record: 3 }, good));
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
