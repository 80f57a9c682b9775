// verify: the server's function, in JavaScript.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Frame, Generator, verify } from "@quillmate/sampler";
import { row } from "./support.mjs";

const settings = { temperature: 0.8, topK: 20, topP: 0.95 };

/** A run of `steps`, as a server would keep it and a client would claim it. */
function recorded(steps, seed = "42") {
  const run = new Generator(null, [1, 2, 3], seed, settings);
  const start = run.state();
  const frames = [];
  const frame_checksums = [];
  for (let n = 0; n < steps; n++) {
    const frame = Frame.forSettings(n, row([1, 2, 3, ...run.tokens]), settings);
    run.stepWithFrame(frame);
    frames.push(frame.encode());
    frame_checksums.push(frame.checksum);
    frame.free();
  }
  const state = run.state();
  run.free();
  return { record: { start, frames }, claim: { tokens: state.tokens, state, frame_checksums } };
}

const { record, claim } = recorded(15);
const replaced = (list, i, value) => list.map((x, j) => (j === i ? value : x));
const claimed = (tokens) => ({ tokens, state: { ...claim.state, tokens, step: tokens.length } });

test("a true claim matches", () => {
  assert.deepEqual(verify(record, claim), { verdict: "match", steps: 15 });
  const { frame_checksums: _, ...bare } = claim;
  assert.deepEqual(verify(record, bare), { verdict: "match", steps: 15 });
  assert.deepEqual(verify(record, { ...claim, tokens: Uint32Array.from(claim.tokens) }), { verdict: "match", steps: 15 });
});

test("resumed in the middle: the record of the rest matches", () => {
  const half = recorded(7);
  const rest = { start: half.claim.state, frames: record.frames.slice(7) };
  assert.deepEqual(verify(rest, { tokens: claim.tokens.slice(7), state: claim.state }), { verdict: "match", steps: 8 });
});

test("one wrong token, at every place, is named", () => {
  for (let n = 0; n < 15; n++) {
    const wrong = (claim.tokens[n] + 1) % 64;
    const verdict = verify(record, claimed(replaced(claim.tokens, n, wrong)));
    assert.equal(verdict.verdict, "diverged");
    assert.equal(verdict.step, n);
    assert.equal(verdict.expected_token, claim.tokens[n]);
    assert.equal(verdict.claimed_token, wrong);
    assert.equal(verdict.why, "token");
    assert.ok(verdict.message.length > 0);
  }
});

test("other logits, another seed, other settings, another prompt: each its own why", () => {
  const checksums = replaced(claim.frame_checksums, 4, "00000000");
  const logits = verify(record, { ...claim, frame_checksums: checksums });
  assert.deepEqual([logits.verdict, logits.why, logits.step], ["diverged", "logits", 4]);
  assert.deepEqual([logits.expected, logits.claimed], [claim.frame_checksums[4], "00000000"]);

  const seed = verify(record, { ...claim, state: { ...claim.state, seed: "43" } });
  assert.deepEqual([seed.verdict, seed.why], ["diverged", "draw"]);
  assert.deepEqual([seed.expected.seed, seed.claimed.seed], ["42", "43"]);

  const hotter = { ...claim.state.settings, temperature: 0.9 };
  const other = verify(record, { ...claim, state: { ...claim.state, settings: hotter } });
  assert.deepEqual([other.verdict, other.why], ["diverged", "settings"]);
  assert.deepEqual([other.expected, other.claimed], [claim.state.settings, hotter]);

  const prompt = verify(record, { ...claim, state: { ...claim.state, prompt: [1, 9, 3] } });
  assert.deepEqual([prompt.verdict, prompt.why, prompt.index], ["diverged", "prompt", 1]);
  assert.deepEqual([prompt.expected, prompt.claimed], [2, 9]);
});

test("a claim may end early, and says how far it was checked", () => {
  assert.deepEqual(verify(record, claimed(claim.tokens.slice(0, 14))), { verdict: "match", steps: 14 });
});

test("a state that tells another story than the tokens", () => {
  const other = replaced(claim.tokens, 6, (claim.tokens[6] + 1) % 64);
  const verdict = verify(record, { tokens: claim.tokens, state: { ...claim.state, tokens: other } });
  assert.deepEqual([verdict.verdict, verdict.step, verdict.claimed_token], ["diverged", 6, other[6]]);
});

test("what cannot be judged is refused, with a code", () => {
  const refusal = (r, c) => {
    const verdict = verify(r, c);
    assert.equal(verdict.verdict, "refused", JSON.stringify(verdict));
    assert.equal(typeof verdict.code, "string");
    assert.ok(verdict.message.length > 0);
    return verdict.code;
  };
  assert.equal(refusal(record, claimed([...claim.tokens, 5])), "frames_missing");
  assert.equal(refusal(record, claimed([])), "claim_empty");
  assert.equal(refusal(record, { ...claim, frame_checksums: claim.frame_checksums.slice(1) }), "claim_malformed");
  const damaged = record.frames[3].slice();
  damaged[damaged.length - 1] ^= 1;
  assert.match(refusal({ ...record, frames: replaced(record.frames, 3, damaged) }, claim), /^frame_/);
  assert.equal(refusal({ ...record, frames: replaced(record.frames, 3, record.frames[4]) }, claim), "frame_step_mismatch");
});

test("arguments of a wrong shape throw or are refused, and nothing breaks", () => {
  const shapes = [null, undefined, 1, "x", [], {}, { tokens: [] }, { start: null, frames: [] }, { ...record, frames: "x" }, { ...record, frames: [[1]] }];
  for (const bad of shapes) {
    for (const call of [() => verify(bad, claim), () => verify(record, bad)]) {
      try {
        assert.equal(call().verdict, "refused");
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        assert.ok(error instanceof Error && typeof error.code === "string", String(error));
      }
    }
  }
  assert.equal(verify(record, claim).verdict, "match");
});
