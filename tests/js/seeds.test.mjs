// Seeds and counters: 64 bits arrive whole or not at all.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deriveSeed, draw, Generator, randomSeed, uniform } from "@quillmate/sampler";
import { model, refused, straight } from "./support.mjs";

const LAST = 2n ** 64n - 1n;
const sink = [(seed) => uniform(seed, 0), (seed) => draw(seed, 0), (seed) => new Generator(model, [1], seed)];

test("a bigint, a decimal string and a safe integer are one seed", () => {
  for (const seed of [0, 1, 42, Number.MAX_SAFE_INTEGER]) {
    assert.equal(draw(seed, 3), draw(BigInt(seed), 3));
    assert.equal(draw(seed, 3), draw(String(seed), 3));
  }
  assert.equal(draw(LAST, 0), draw("18446744073709551615", 0));
  const run = new Generator(model, [], LAST);
  assert.equal(run.seed, "18446744073709551615");
  assert.equal(run.state().seed, "18446744073709551615");
  run.free();
});

test("anything else is refused, nowhere wrapped", () => {
  for (const call of sink) {
    for (const text of ["", " 1", "1 ", "01", "00", "+1", "-1", "1.0", "1e3", "0x10", "١", "18446744073709551616", "9".repeat(40)]) {
      refused("seed_malformed", () => call(text));
    }
    for (const seed of [2n ** 64n, -1n, 1.5, -1, NaN, Infinity, 2 ** 53, 2 ** 64]) refused("seed_out_of_range", () => call(seed));
    for (const seed of [undefined, null, true, {}, [], [42], Symbol("42"), () => 42, new Number(42), new String("42")]) {
      refused("seed_type", () => call(seed));
    }
  }
});

test("steps and streams: unsigned 64-bit integers, checked", () => {
  assert.equal(draw("42", LAST, LAST), draw("42", LAST, LAST));
  assert.notEqual(draw("42", LAST), draw("42", 0));
  assert.equal(draw("42", 5), draw("42", 5n, 0n));
  assert.equal(draw("42", 5, undefined), draw("42", 5));
  for (const bad of [-1, -1n, 1.5, NaN, Infinity, 2 ** 53, 2n ** 64n]) {
    for (const f of [uniform, draw]) {
      refused("step_out_of_range", () => f("42", bad));
      refused("stream_out_of_range", () => f("42", 0, bad));
    }
  }
  for (const bad of ["1", null, {}, true]) {
    for (const f of [uniform, draw]) {
      refused("step_out_of_range", () => f("42", bad));
      refused("stream_out_of_range", () => f("42", 0, bad));
    }
  }
  refused("step_out_of_range", () => draw("42"));
});

test("randomSeed: decimal, below 2^64, not twice the same, usable", () => {
  const seeds = new Set();
  for (let i = 0; i < 1000; i++) {
    const seed = randomSeed();
    assert.match(seed, /^(0|[1-9]\d*)$/);
    assert.ok(BigInt(seed) <= LAST);
    seeds.add(seed);
  }
  assert.equal(seeds.size, 1000);
  // All 64 bits are in play.
  let [ones, zeros] = [0n, 0n];
  for (const seed of seeds) {
    ones |= BigInt(seed);
    zeros |= ~BigInt(seed) & LAST;
  }
  assert.equal(ones, LAST);
  assert.equal(zeros, LAST);
  straight(1, { seed: randomSeed() }).free();
});

test("deriveSeed: labels and attempts are taken whole or refused", () => {
  assert.equal(deriveSeed(42, "draft-model", 0), deriveSeed("42", "draft-model", 0n));
  assert.notEqual(deriveSeed(42, "draft-model", 0), deriveSeed(42, "draft-model", 1));
  refused("label_empty", () => deriveSeed(42, "", 0));
  refused("label_too_long", () => deriveSeed(42, "é".repeat(128), 0));
  for (const label of [undefined, null, 1, {}, ["a"], "a\ud800", "\udc00", new String("a"), Symbol("a")]) {
    refused("label_type", () => deriveSeed(42, label, 0));
  }
  for (const bad of [undefined, -1, 1.5, 2n ** 64n, "1"]) refused("attempt_out_of_range", () => deriveSeed(42, "a", bad));
  refused("seed_malformed", () => deriveSeed("042", "a", 0));
});

test("replay, new candidate and resume are three things", () => {
  const run = straight(9);
  const state = run.state();
  const rest = (generator, steps) => {
    for (let n = 0; n < steps; n++) generator.step();
    const tokens = [...generator.tokens];
    generator.free();
    return tokens;
  };
  const replay = Generator.replay(model, state);
  assert.deepEqual(replay.state(), { ...state, step: 0, tokens: [] });
  assert.deepEqual(rest(replay, 9), state.tokens);

  const candidates = [1, 2n].map((attempt) => Generator.newCandidate(model, state, attempt));
  candidates.forEach((candidate, at) => {
    assert.equal(candidate.seed, deriveSeed(state.seed, "candidate", at + 1));
    assert.deepEqual(candidate.state(), { ...state, step: 0, tokens: [], seed: candidate.seed });
  });
  const [first, second] = candidates.map((candidate) => rest(candidate, 9));
  assert.notDeepEqual(first, second);
  assert.notDeepEqual(first, state.tokens);

  const resumed = Generator.resume(model, state);
  assert.deepEqual(resumed.state(), state);
  assert.equal(resumed.step(), run.step());
  resumed.free();
  run.free();
  refused("attempt_out_of_range", () => Generator.newCandidate(model, state));
  for (const call of [Generator.replay, Generator.newCandidate, Generator.resume]) refused("field_type", () => call(model, null, 1));
});
