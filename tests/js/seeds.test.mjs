// Seeds and counters: 64 bits arrive whole or not at all.
import assert from "node:assert/strict";
import { test } from "node:test";
import { draw, Generator, randomSeed, uniform } from "@quillmate/sampler";
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
