// Arrays over the wasm's own memory, which are detached when it grows, and copying one in may make it grow. Each
// case starts with a full memory.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
/** What `call` gives over the wasm's memory, and what it gives over a copy. `buffer` is the logits buffer with V logits, filled. */
async function both(call) {
  const code = `
    import init, * as it from ${JSON.stringify(import.meta.resolve("@quillmate/sampler"))};
    const { Frame, Generator, logitsBuffer, sampleBatch, sampleToken, speculativeStep, stepBatch } = it;
    const { memory } = await init();
    const V = 49152;
    const numbers = Float32Array.from({ length: V }, (_, at) => Math.fround(Math.sin(at * at) * 8));
    const settings = { temperature: 0.8, topK: 40 };
    const buffer = () => {
      const view = logitsBuffer(V);
      view.set(numbers);
      return view;
    };
    const call = ${call};
    const expected = call(() => numbers.slice(), false);
    // With another amount of free memory at the end each time, one of which does not suffice.
    for (let free = 0; free < 24; free++) {
      const before = memory.buffer.byteLength;
      const found = call(buffer, true);
      if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error("other than of a copy: " + JSON.stringify(found).slice(0, 200));
      if (memory.buffer.byteLength > before) globalThis.grown = (globalThis.grown ?? 0) + 1;
      // Kept, so that the next call finds less room.
      (globalThis.kept ??= []).push(Frame.dense(0, numbers.slice(0, 30011)));
    }
    if (!globalThis.grown) throw new Error("the memory did not grow");
    console.log("ok");
  `;
  const { stdout, stderr } = await run(process.execPath, ["--input-type=module", "-e", code]);
  assert.equal(stderr, "");
  assert.equal(stdout.trim(), "ok");
}

for (const [name, call] of Object.entries({
  "Frame.forSettings of the buffer": "(logits) => { const f = Frame.forSettings(0, logits(), { topK: 40 }); const c = f.checksum; f.free(); return c; }",
  "Frame.dense of the buffer": "(logits) => { const f = Frame.dense(0, logits()); const c = f.checksum; f.free(); return c; }",
  "sampleToken of a part of the buffer": "(logits) => sampleToken(logits().subarray(0, V), settings, 0.3)",
  "sampleToken of a sparse row": "(logits) => sampleToken({ ids: Uint32Array.from({ length: V }, (_, at) => at), logits: logits().subarray(), vocab: V }, settings, 0.3)",
  "sampleBatch of a part of the buffer": "(logits) => sampleBatch(logits().subarray(), V / 4, settings, [0.1, 0.2, 0.3, 0.4])",
  "sampleBatch with uniform numbers in it": `(logits, over) => {
    const rows = logits();
    const u = over ? new Float64Array(rows.buffer, rows.byteOffset & ~7, 4) : new Float64Array(4);
    u.set([0.1, 0.2, 0.3, 0.4]);
    return sampleBatch(numbers, V / 4, settings, u);
  }`,
  "stepWithDrafts": `(logits) => {
    const g = new Generator(null, [1], 5, settings);
    const view = logits();
    const rows = [view.subarray(0, V / 2), view.subarray(V / 2)];
    const found = g.stepWithDrafts(rows, [3]).tokens;
    g.free();
    return found;
  }`,
  "a prompt": `(logits, over) => {
    const view = logits();
    const ids = over ? new Uint32Array(view.buffer, view.byteOffset, V) : new Uint32Array(V);
    ids.forEach((_, at) => (ids[at] = at));
    const g = new Generator(null, ids, 5, settings);
    const found = [...g.prompt];
    g.free();
    return found;
  }`,
  "a prompt of signed integers": `(logits, over) => {
    const view = logits();
    const ids = over ? new Int32Array(view.buffer, view.byteOffset, V) : new Int32Array(V);
    ids.forEach((_, at) => (ids[at] = at));
    const g = new Generator(null, ids, 5, settings);
    const found = [...g.prompt];
    g.free();
    return found;
  }`,
  "speculativeStep": `(logits, over) => {
    const view = logits();
    const half = (at) => over ? new Float64Array(view.buffer, (view.byteOffset & ~7) + at * V, V / 8) : new Float64Array(V / 8);
    const [p, q] = [half(1), half(2)];
    for (const row of [p, q]) row.fill(0).set([0.5, 0.5]);
    return speculativeStep(p, q, 1, 0.2, 0.3);
  }`,
  "stepBatch, each generator with its own model": `(logits) => {
    const batch = [1, 2, 3].map((seed) => new Generator(() => logits().subarray(0, V), [], seed, settings));
    const found = [stepBatch(batch), stepBatch(batch)].flat();
    batch.forEach((g) => g.free());
    return found;
  }`,
  "stepBatch with one model": `(logits) => {
    const batch = [1, 2, 3].map((seed) => new Generator(null, [], seed, settings));
    const model = () => [logits().subarray(0, V / 2), logits().subarray(V / 2), logits()];
    const found = [];
    try { found.push(stepBatch(batch, model)); } catch (error) { found.push(error.code); }
    batch.forEach((g) => g.free());
    return found.flat();
  }`,
})) {
  test(name, () => both(call));
}

test("a length of its own cannot be set on the logits buffer", async () => {
  const { logitsBuffer, sampleToken } = await import("@quillmate/sampler");
  const view = logitsBuffer(3);
  view.set([0, 5, 1]);
  const get = () => {
    throw new RangeError("boom");
  };
  assert.throws(() => Object.defineProperty(view, "length", { get }), TypeError);
  assert.equal(sampleToken(view, { temperature: 0 }, 0), 1);
  assert.equal(logitsBuffer(3), view);
});
