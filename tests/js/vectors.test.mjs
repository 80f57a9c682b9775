// All of contract.json, bit for bit. Each kind prints how many cases it ran; the caller compares this with the file.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deriveSeed, distribution, draw, exp, Frame, Generator, mosaicDecision, mosaicStep, sampleBatch, sampleToken, uniform } from "@quillmate/sampler";
import { asF32, below, contract, derivedSeeds, frames, fromBits, greedy, hardExp, LARGEST_U, numbers, refused, settingsOf, toBits, writtenNumbers } from "./support.mjs";

/** One test over all cases of a kind. */
function cases(kind, list, check) {
  test(`${kind} vectors`, () => {
    let ran = 0;
    for (const [i, vector] of list.entries()) {
      check(vector, `${kind} ${i}${vector.name ? `, ${vector.name}` : ""}`);
      ran += 1;
    }
    console.log(`ran ${ran} ${kind} cases`);
    assert.ok(ran > 0);
    assert.equal(ran, list.length);
  });
}

const sameExp = ([x, y], name) => assert.equal(toBits(exp(fromBits(x))), y, `${name}: exp(${fromBits(x)})`);
cases("exp", contract.exp, sameExp);
cases("exp_hard", hardExp.exp, sameExp);

cases("uniform", contract.uniform, ({ seed, step, stream, draw: bits, uniform_bits }, name) => {
  const seeds = [seed, BigInt(seed)];
  if (Number.isSafeInteger(Number(seed))) seeds.push(Number(seed));
  for (const s of seeds) {
    assert.equal(draw(s, step, stream), BigInt(bits), name);
    assert.equal(draw(s, BigInt(step), BigInt(stream)), BigInt(bits), name);
    assert.equal(toBits(uniform(s, step, stream)), uniform_bits, name);
    if (stream === 0) assert.equal(toBits(uniform(s, step)), uniform_bits, name);
  }
});

cases("derive_seed", derivedSeeds.derive_seed, ({ root, label, attempt, seed }, name) => {
  assert.equal(deriveSeed(root, label, BigInt(attempt)), seed, name);
  assert.equal(deriveSeed(BigInt(root), label, BigInt(attempt)), seed, name);
});

cases("frame", frames.frames, ({ step, logits, k, bytes, max_top_k }, name) => {
  const row = Float32Array.from(logits, Number);
  const frame = k === undefined ? Frame.dense(BigInt(step), row) : Frame.sparse(BigInt(step), row, k);
  assert.equal(Buffer.from(frame.encode()).toString("hex"), bytes, name);
  assert.equal(frame.maxTopK ?? 0, max_top_k, name);
  assert.equal(Buffer.from(Frame.decode(Buffer.from(bytes, "hex")).encode()).toString("hex"), bytes, name);
});

cases("refused_frame", frames.refused, ({ bytes, code, index }, name) => {
  assert.equal(refused(code, () => Frame.decode(Buffer.from(bytes, "hex"))).index, index, name);
});

cases("number", writtenNumbers.numbers, ([bits, text], name) => {
  const message = `temperature must be finite and at least 0, but is ${text}`;
  assert.throws(() => sampleToken(new Float64Array(1), { temperature: fromBits(bits) }, 0), { message }, name);
});

cases("sample", contract.sample, (vector, name) => {
  const settings = settingsOf(vector);
  const logits = numbers(vector.logits);
  const rows = [logits, asF32(logits)].filter((row) => row !== null);
  for (const row of rows) {
    const token = (u) => sampleToken(row, settings, u);
    for (const [u, expected] of vector.draws) assert.equal(token(u), expected, `${name}, u ${u}`);
    const { ids, probabilities } = distribution(row, settings);
    assert.deepEqual([...ids], vector.kept, name);
    assert.deepEqual([...probabilities].map(toBits), vector.probability_bits ?? [toBits(1)], name);

    if (vector.probability_bits === undefined) {
      for (const u of [0, 0.5, LARGEST_U]) assert.equal(token(u), vector.kept[0], name);
      continue;
    }
    // The kept set and its probabilities, through the borders between tokens: each is where the running sum says, to the bit.
    assert.equal(vector.kept.length, vector.probability_bits.length);
    let [r, last] = [0, -1];
    for (const [i, id] of vector.kept.entries()) {
      const start = r;
      const q = fromBits(vector.probability_bits[i]);
      r += q;
      if (q > 0) last = id;
      if (r === start || start >= 1) continue;
      assert.equal(token(start), id, `${name}: first u of token ${id}`);
      assert.equal(token(Math.min(below(r), LARGEST_U)), id, `${name}: last u of token ${id}`);
    }
    if (r <= LARGEST_U) assert.equal(token(LARGEST_U), last, `${name}: beyond the sum`);
  }

  // A run over the same row draws uniform(seed, n) and nothing else.
  const run = new Generator(() => logits, [], "42", settings);
  for (let n = 0; n < 5; n++) assert.equal(run.step(), sampleToken(logits, settings, uniform("42", n)), name);
  run.free();
});

// A field missing from a case is omitted from the call, then replaced by values that only JavaScript can pass.
cases("greedy", greedy.greedy, (vector, name) => {
  const logits = numbers(vector.logits);
  const given = Object.entries({ temperature: "temperature", topK: "top_k", topP: "top_p" }).filter(([, field]) => field in vector);
  const settings = Object.fromEntries(given.map(([key, field]) => [key, Number(vector[field])]));
  const u = vector.u === undefined ? undefined : Number(vector.u);
  const nonsense = { topK: "many", topP: Symbol("p"), ...settings };
  for (const row of [logits, asF32(logits)].filter((row) => row !== null)) {
    assert.equal(sampleToken(row, settings, u), vector.token, name);
    assert.equal(sampleToken(row, nonsense, "u"), vector.token, name);
    assert.equal(sampleToken(row, settings), vector.token, name);
    assert.deepEqual([...distribution(row, settings).ids], [vector.token], name);
    const [greedyOne, sampled] = sampleBatch(Float64Array.of(...row, ...row), row.length, [settings, {}], [u, 0]);
    assert.equal(greedyOne, vector.token, name);
    assert.equal(typeof sampled, "number", name);
  }
  refused("field_unknown", () => sampleToken(logits, { ...settings, topk: 1 }, 0.5));
});

cases("mosaic_greedy", greedy.mosaic_greedy, ({ logits, token }, name) => {
  const row = Float64Array.from(logits);
  assert.equal(mosaicDecision(row, "greedy", 1, 0).token_id, token, name);
  const state = { contract: "mosaic-splitmix64-top-k-top-p-v1", format: 1, seed: "1", draws: 0, prompt: [], tokens: [], strategy: { kind: "greedy" } };
  assert.deepEqual(mosaicStep(state, row).state.tokens, [token], name);
});

test("known answers", () => {
  assert.equal(uniform(42, 0), 0.7415648787718233);
  assert.equal(draw(0, 0, 0), 16294208416658607535n);
  assert.equal(draw(1234567, 0, 0), 6457827717110365317n);
  assert.equal(draw(2n ** 53n + 1n, 0), 386430782533759031n);
  assert.equal(draw(2n ** 53n, 0), 14898857794701533647n);
});

test("exp outside the vectors", () => {
  assert.equal(exp(-Infinity), 0);
  assert.ok(Number.isNaN(exp(NaN)));
  assert.equal(exp(-746), 0);
});
