// Frames: lossless, sufficient for what they say, and an error when one bit is wrong.
import assert from "node:assert/strict";
import { test } from "node:test";
import { draw, Frame, Generator, sampleToken, uniform } from "@quillmate/sampler";
import { LARGEST_U, refused, row } from "./support.mjs";

const bf16 = (logits) => new Float32Array(Uint32Array.from(new Uint32Array(logits.slice().buffer), (b) => b & 0xffff0000).buffer);
const quarters = (logits) => logits.map((x) => Math.round(x * 4) / 4);
const same = (a, b) => a.length === b.length && a.every((x, i) => Object.is(x, b[i]));

test("dense frames give back every bit", () => {
  const logits = row([1], 100);
  logits[7] = -Infinity;
  logits[8] = -0;
  logits[9] = 2 ** -149;
  const frame = Frame.dense(5, logits);
  assert.equal(frame.step, 5);
  assert.equal(frame.vocab, 100);
  assert.equal(frame.layout, "dense");
  assert.equal(frame.dtype, "f32");
  assert.equal(frame.maxTopK, null);
  assert.match(frame.checksum, /^[0-9a-f]{8}$/);
  assert.ok(same(frame.logits({}), logits));
  for (const settings of [{}, { temperature: 0 }, { topK: 3 }, { topK: 2 ** 32 - 1, topP: 0.5 }]) assert.ok(frame.sufficesFor(settings));
  const bytes = frame.encode();
  assert.ok(bytes instanceof Uint8Array);
  const read = Frame.decode(bytes);
  assert.deepEqual(read.encode(), bytes);
  assert.equal(read.checksum, frame.checksum);
  assert.ok(same(read.logits({}), logits));
  frame.free();
  read.free();
});

test("half the bytes where every value survives", () => {
  const narrow = bf16(row([2], 200));
  const frame = Frame.dense(0, narrow);
  assert.equal(frame.dtype, "bf16");
  assert.ok(same(frame.logits({}), narrow));
  const coarse = quarters(row([2], 200)).map((x) => x / 2 + 2 ** -9);
  const half = Frame.dense(0, coarse);
  assert.equal(half.dtype, "f16");
  assert.ok(same(half.logits({}), coarse));
  const wide = Frame.dense(0, row([2], 200));
  assert.equal(wide.dtype, "f32");
  assert.ok(frame.encode().length < wide.encode().length * 0.6);
  for (const f of [frame, half, wide]) f.free();
});

test("sparse frames: the k best under the tie rule, and no other setting", () => {
  // Many ties: quarters in a small range.
  const logits = quarters(row([3], 300));
  for (const k of [1, 2, 7, 50, 299]) {
    const frame = Frame.sparse(2, logits, k);
    assert.equal(frame.layout, "sparse");
    assert.equal(frame.maxTopK, k);
    const expected = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b).slice(0, k);
    const seen = frame.logits({ topK: k });
    assert.equal(seen.length, 300);
    for (let id = 0; id < 300; id++) {
      assert.ok(Object.is(seen[id], expected.includes(id) ? logits[id] : -Infinity), `k ${k}, id ${id}`);
    }
    for (const settings of [{ topK: 1 }, { topK: k }, { temperature: 0 }, { temperature: 0, topK: k + 1 }]) {
      assert.ok(frame.sufficesFor(settings), JSON.stringify(settings));
    }
    for (const settings of [{}, { topK: 0 }, { topK: k + 1 }, { topP: 0.5 }]) {
      assert.ok(!frame.sufficesFor(settings), JSON.stringify(settings));
      refused("frame_insufficient", () => frame.logits(settings));
    }
    const read = Frame.decode(frame.encode());
    assert.ok(same(read.logits({ topK: k }), seen));
    read.free();
    frame.free();
  }
});

test("every u gives the token of the whole row", () => {
  const grid = Array.from({ length: 400 }, (_, i) => uniform("7", i));
  grid.push(0, LARGEST_U);
  for (const make of [(r) => r, bf16, quarters]) {
    for (const settings of [
      { topK: 1 },
      { topK: 5, temperature: 0.7 },
      { topK: 40, topP: 0.9 },
      { topK: 200, topP: 0.3, temperature: 1.5 },
      { temperature: 0 },
      { topP: 0.8 },
    ]) {
      const logits = make(row([settings.topK ?? 0], 256));
      logits[3] = -Infinity;
      const frame = Frame.forSettings(0, logits, settings);
      assert.ok(frame.sufficesFor(settings));
      const sent = frame.logits(settings);
      for (const u of grid) assert.equal(sampleToken(sent, settings, u), sampleToken(logits, settings, u));
      frame.free();
    }
  }
});

test("forSettings sends no more than it must", () => {
  const logits = row([4], 4096);
  const size = (settings) => {
    const frame = Frame.forSettings(0, logits, settings);
    const { length } = frame.encode();
    frame.free();
    return length;
  };
  const dense = size({});
  assert.ok(dense >= 4096 * 4 && dense < 4096 * 4 + 64);
  assert.ok(size({ topK: 50 }) < 50 * 8 + 64);
  assert.ok(size({ temperature: 0 }) < 8 + 64);
  assert.ok(size({ temperature: 0, topK: 50 }) < 8 + 64);
  assert.ok(size({ topK: 4096 }) <= dense + 64);
  assert.ok(size({ topK: 2 ** 32 - 1 }) <= dense + 64);
});

test("a damaged frame is an error, never a token: every length, every bit", () => {
  const frames = [Frame.dense(3, row([1], 16)), Frame.dense(3, bf16(row([1], 16))), Frame.sparse(3, row([1], 16), 4)];
  let tried = 0;
  for (const frame of frames) {
    const bytes = frame.encode();
    const rejects = (damaged) => {
      tried += 1;
      try {
        Frame.decode(damaged).free();
      } catch (error) {
        assert.ok(error instanceof Error);
        assert.match(error.code, /^frame_/);
        return;
      }
      assert.fail("a damaged frame was read");
    };
    for (let n = 0; n < bytes.length; n++) rejects(bytes.slice(0, n));
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const damaged = bytes.slice();
      damaged[bit >> 3] ^= 1 << (bit & 7);
      rejects(damaged);
    }
    rejects(Uint8Array.of(...bytes, 0));
    rejects(Uint8Array.of(...bytes, ...bytes));
    Frame.decode(bytes).free();
    frame.free();
  }
  assert.ok(tried > 1000);
});

test("bytes that never were a frame", () => {
  let seed = 0;
  for (let n = 0; n < 2000; n++) {
    const bytes = Uint8Array.from({ length: n % 97 }, () => Number(draw("9", seed++) & 255n));
    assert.throws(() => Frame.decode(bytes), (e) => e instanceof Error && e.code.startsWith("frame_"));
  }
  for (const bad of [null, undefined, [1, 2], "x", 5, {}, new ArrayBuffer(40), Uint16Array.of(1)]) refused("bytes_type", () => Frame.decode(bad));
});

test("arguments of a new frame", () => {
  const logits = row([1], 16);
  for (const bad of [-1, 1.5, NaN, 2n ** 64n, "1", null, undefined]) {
    refused("step_out_of_range", () => Frame.dense(bad, logits));
    refused("step_out_of_range", () => Frame.sparse(bad, logits, 1));
    refused("step_out_of_range", () => Frame.forSettings(bad, logits, {}));
  }
  for (const bad of [0, -1, 1.5, NaN, 2 ** 32, "1", undefined]) refused("top_k_out_of_range", () => Frame.sparse(0, logits, bad));
  for (const bad of [[1], null, Float64Array.of(1)]) refused("logits_type", () => Frame.dense(0, bad));
  refused("logits_nan", () => Frame.dense(0, Float32Array.of(NaN)));
  refused("logits_empty", () => Frame.dense(0, Float32Array.of()));
  refused("logits_all_banned", () => Frame.sparse(0, Float32Array.of(-Infinity), 1));
  refused("top_p_out_of_range", () => Frame.forSettings(0, logits, { topP: 7 }));
  refused("top_p_out_of_range", () => {
    const frame = Frame.dense(0, logits);
    return frame.sufficesFor({ topP: 7 });
  });
});

test("a generator takes a frame of its step and its settings only, and nothing has moved", () => {
  const settings = { topK: 10 };
  const run = new Generator(null, [1], "5", settings);
  const logits = row([1]);
  const state = () => JSON.stringify(run.state());
  const before = state();
  const later = Frame.dense(1, logits);
  const earlier = new Generator(null, [1], "5", settings);
  earlier.stepWith(logits);
  refused("frame_step_mismatch", () => earlier.stepWithFrame(Frame.dense(0, logits)));
  refused("frame_step_mismatch", () => earlier.stepWithFrame(Frame.dense(2, logits)));
  earlier.stepWithFrame(later);
  const thin = Frame.sparse(0, logits, 9);
  refused("frame_step_mismatch", () => run.stepWithFrame(later));
  assert.equal(state(), before);
  refused("frame_insufficient", () => run.stepWithFrame(thin));
  assert.equal(state(), before);
  for (const bad of [null, undefined, {}, logits, thin.encode()]) {
    refused("frame_type", () => run.stepWithFrame(bad));
    assert.equal(state(), before);
  }
  const good = Frame.sparse(0, logits, 10);
  assert.equal(run.stepWithFrame(good), sampleToken(logits, settings, uniform("5", 0)));
  // The frame is borrowed, not consumed.
  assert.equal(good.step, 0);
  for (const thing of [later, thin, good, run]) thing.free();
  refused("freed", () => good.encode());
});
