// logitsBuffer: logits that are not copied, and memory that does not grow.
import assert from "node:assert/strict";
import { test } from "node:test";
import init, { Frame, Generator, logitsBuffer, sampleToken, uniform } from "@quillmate/sampler";
import { refused, row } from "./support.mjs";

const { memory } = await init();
const all = [{ temperature: 0 }, { temperature: 0.8, topK: 50, topP: 0.95 }, { temperature: 0.8, topP: 0.9 }, { temperature: 0.8 }];

/** The buffer, filled. */
function filled(logits) {
  const buffer = logitsBuffer(logits.length);
  buffer.set(logits);
  return buffer;
}

test("a row in the buffer gives what the same row gives elsewhere", () => {
  for (const settings of all) {
    for (let n = 0; n < 40; n++) {
      const logits = row([n], 1000);
      assert.equal(sampleToken(filled(logits), settings, uniform(1, n)), sampleToken(logits, settings, uniform(1, n)));
    }
  }
  const [uncopied, copied] = [0, 1].map(() => new Generator((tokens) => row(tokens, 300), [1], 5, all[1]));
  for (let n = 0; n < 30; n++) {
    const logits = row([1, ...copied.tokens], 300);
    assert.equal(uncopied.trace(filled(logits)).token, uncopied.stepWith(filled(logits)));
    copied.step();
  }
  assert.deepEqual(uncopied.state(), copied.state());
  uncopied.free();
  copied.free();
});

test("a model may answer with the buffer", () => {
  const [uncopied, copied] = [(tokens) => filled(row(tokens)), (tokens) => row(tokens)].map((model) => new Generator(model, [3], 7, all[2]));
  for (let n = 0; n < 30; n++) assert.equal(uncopied.step(), copied.step());
  uncopied.free();
  copied.free();
});

test("the same view comes back, and one of another length shows the same memory", () => {
  const first = logitsBuffer(100);
  assert.equal(logitsBuffer(100), first);
  const shorter = logitsBuffer(10);
  first.fill(-1);
  shorter[3] = 9;
  assert.equal(first[3], 9);
  assert.equal(sampleToken(shorter, { temperature: 0 }, 0), 3);
  // An earlier view is read like any array.
  assert.equal(sampleToken(first, { temperature: 0 }, 0), 3);
  first[50] = 10;
  assert.equal(sampleToken(first, { temperature: 0 }, 0), 50);
});

test("bad logits in the buffer are refused, and cost nothing", () => {
  const run = new Generator(null, [], 1, all[1]);
  const buffer = filled(Float32Array.of(0, 1, Number.NaN));
  assert.equal(refused("logits_nan", () => run.stepWith(buffer)).index, 2);
  buffer.fill(-Infinity);
  refused("logits_all_banned", () => run.stepWith(buffer));
  assert.equal(run.position, 0);
  run.free();
});

test("what is no length is refused", () => {
  for (const wrong of [-1, 1.5, Number.NaN, 2 ** 32, "5", null, undefined, 5n]) refused("token_out_of_range", () => logitsBuffer(wrong));
  refused("logits_empty", () => logitsBuffer(0));
  refused("logits_too_long", () => logitsBuffer(2 ** 27));
});

test("after memory has grown the old view is refused, and the next one works", () => {
  const run = new Generator(null, [], 1, all[1]);
  const old = filled(row([1]));
  const before = memory.buffer.byteLength;
  // A row too large for the memory there is.
  sampleToken(new Float64Array(before / 8 + 1), { temperature: 0 }, 0);
  assert.ok(memory.buffer.byteLength > before);
  assert.equal(old.length, 0);
  refused("logits_buffer_detached", () => run.stepWith(old));
  assert.equal(run.position, 0);
  const again = logitsBuffer(64);
  assert.equal(again.length, 64);
  again.set(row([1]));
  assert.equal(run.stepWith(again), sampleToken(row([1]), all[1], uniform(1, 0)));
  run.free();
});

test("a buffer that was given up for a larger one is nobody else's memory", () => {
  const small = logitsBuffer(4096);
  const large = filled(row([2], 1 << 20));
  const expected = sampleToken(large, all[1], 0.3);
  if (small.length > 0) small.fill(Number.NaN);
  const others = Array.from({ length: 200 }, (_, seed) => new Generator(null, [1, 2, 3], seed, all[1]));
  if (small.length > 0) small.fill(123);
  for (const [seed, other] of others.entries()) {
    assert.deepEqual([...other.prompt, Number(other.seed)], [1, 2, 3, seed]);
    other.free();
  }
  assert.equal(sampleToken(filled(row([2], 1 << 20)), all[1], 0.3), expected);
});

test("a step at V = 128,256 takes no memory that grows after the first, nor do 100,000 steps", () => {
  const V = 128_256;
  const logits = row([9], V);
  const run = new Generator(null, [1], 3, all[1]);
  for (const settings of all) sampleToken(filled(logits), settings, 0.5);
  run.stepWith(filled(logits));
  const before = memory.buffer.byteLength;
  for (let n = 0; n < 60; n++) {
    for (const settings of all) sampleToken(filled(logits), settings, uniform(2, n));
    run.stepWith(filled(logits));
  }
  assert.equal(memory.buffer.byteLength, before);
  run.free();

  const small = row([9], 512);
  const long = new Generator(null, [1], 3, all[1]);
  const sparse = Frame.sparse(0, small, 50);
  for (let n = 0; n < 100_000; n++) {
    for (const settings of n % 4 === 0 ? all : []) sampleToken(filled(small), settings, uniform(4, n));
    if (n % 10 === 0) sparse.logits(all[1]);
    long.stepWith(filled(small));
  }
  // A run keeps its tokens: 4 bytes each, in a list that doubles.
  const kept = 4 * 2 * 131_072;
  assert.equal(long.position, 100_000);
  assert.ok(memory.buffer.byteLength - before <= 2 * kept, `${memory.buffer.byteLength - before} bytes more`);
  sparse.free();
  long.free();
});
