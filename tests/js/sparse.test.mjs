// Rows of which only the best logits are known: the token of the whole row whatever is unknown, or a refusal.
import assert from "node:assert/strict";
import { test } from "node:test";
import { distribution, draw, Frame, Generator, sampleBatch, sampleToken, stepBatch, uniform } from "@quillmate/sampler";
import { refused, row, straight } from "./support.mjs";

/** A generator of integers of its own for each case. */
const random = (seed) => {
  let step = 0;
  return (n) => Number(draw(seed, step++, 5) % BigInt(n));
};
const best = (logits, n) => {
  const ids = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b).slice(0, n);
  return { ids, logits: Float32Array.from(ids, (id) => logits[id]), vocab: logits.length };
};

test("the whole row's token for every row it may be part of, or a refusal", () => {
  let [taken, turned] = [0, 0];
  for (let seed = 0; seed < 1500; seed++) {
    const next = random(seed);
    const vocab = 2 + next(14);
    // Four values: ties nearly everywhere.
    const whole = Float32Array.from({ length: vocab }, () => (next(8) === 0 ? -Infinity : next(4) / 2));
    // Any choice among equals: a server has its own.
    const order = [...whole.keys()].map((id) => [id, next(1000)]).sort((a, b) => (whole[b[0]] > whole[a[0]] ? 1 : whole[b[0]] < whole[a[0]] ? -1 : a[1] - b[1]));
    const ids = order.slice(0, 1 + next(vocab)).map(([id]) => id).reverse();
    const known = { ids, logits: Float64Array.from(ids, (id) => whole[id]), vocab };
    const lowest = Math.min(...[...known.logits].filter(Number.isFinite), 9);
    const settings = { temperature: [0, 0.7, 1][next(3)], topK: next(vocab + 2), topP: [1, 0.6][next(2)] };
    if (known.logits.every((logit) => logit === -Infinity)) continue;
    let kept;
    try {
      kept = distribution(known, settings);
    } catch (error) {
      assert.equal(error.code, "frame_insufficient");
      refused("frame_insufficient", () => sampleToken(known, settings, 0.5));
      turned += 1;
      continue;
    }
    taken += 1;
    for (let n = 0; n < 12; n++) {
      const completed = whole.map((logit, id) => (ids.includes(id) ? logit : n === 0 ? lowest : n === 1 ? logit : [-Infinity, lowest, lowest - 1][next(3)]));
      assert.deepEqual(distribution(completed, settings), kept);
      const u = uniform(seed, n);
      assert.equal(sampleToken(known, settings, u), sampleToken(completed, settings, u));
    }
  }
  assert.ok(taken > 300 && turned > 300, `${taken} taken, ${turned} refused`);
});

test("a run on the best logits of each row is the run on the rows", () => {
  const settings = { temperature: 0.8, topK: 20, topP: 0.95 };
  const whole = straight(12, { settings });
  const [run, asked] = [new Generator(null, [1, 2, 3], "42", settings), new Generator((tokens) => best(row(tokens), 21), [1, 2, 3], "42", settings)];
  for (let n = 0; n < 12; n++) {
    const logits = row([1, 2, 3, ...run.tokens]);
    const known = best(logits, 21);
    assert.deepEqual(run.decision(known), run.decision(logits));
    const frame = Frame.fromSparse(n, known);
    const framed = Generator.fromState(null, run.state());
    const token = run.stepWith(known);
    assert.equal(framed.stepWithFrame(frame), token);
    assert.equal(asked.step(), token);
    for (const thing of [frame, framed]) thing.free();
  }
  assert.deepEqual(run.state(), whole.state());
  for (const thing of [run, asked, whole]) thing.free();
});

test("what could look at the unknown is refused, and costs nothing", () => {
  // The ninth is not certain: an unknown token of a lower id may have the same logit.
  const known = best(row([]), 9);
  const run = (settings) => new Generator(null, [], "1", settings);
  for (const settings of [{}, { topP: 0.5 }, { topP: 0 }, { topK: 9 }, { topK: 2 ** 32 - 1 }, { temperature: 0.5, topK: 0 }]) {
    const stepped = run(settings);
    refused("frame_insufficient", () => stepped.stepWith(known));
    assert.equal(stepped.position, 0);
    refused("frame_insufficient", () => sampleToken(known, settings, 0));
    refused("frame_insufficient", () => distribution(known, settings));
  }
  const processed = run({ topK: 3, processors: [{ name: "min_p", version: 1, p: 0.1 }] });
  refused("frame_insufficient", () => processed.stepWith(known));
  assert.match(refused("frame_insufficient", () => sampleToken(known, { topK: 9 }, 0)).message, /only the 8 best logits.*the 9 best are needed/);
  // Greedy needs the best one only, and no uniform number.
  assert.equal(sampleToken(known, { temperature: 0, topK: 9 }), sampleToken(row([]), { temperature: 0 }));
  // What counts or ranks all tokens.
  const greedy = run({ temperature: 0 });
  refused("frame_insufficient", () => greedy.decision(known));
  refused("frame_insufficient", () => run({ topK: 3 }).trace(known));
  assert.equal(greedy.stepWith(known), sampleToken(row([]), { temperature: 0 }, 0));
  // All logits are a whole row.
  const all = best(row([]), 64);
  assert.deepEqual(run({}).trace(all), run({}).trace(row([])));
  assert.equal(run({}).stepWith(all), run({}).stepWith(row([])));
});

test("frames of the best logits", () => {
  const logits = row([]);
  const frame = Frame.fromSparse(4, best(logits, 9));
  assert.deepEqual([frame.step, frame.vocab, frame.layout, frame.maxTopK], [4, 64, "sparse", 8]);
  const same = Frame.sparse(4, logits, 8);
  assert.deepEqual(frame.encode(), same.encode());
  // Equal logits at the end: a token of a lower id may be among them.
  const tied = { ids: [9, 5, 7], logits: Float32Array.of(2, 1, 1), vocab: 50 };
  assert.equal(Frame.fromSparse(0, tied).maxTopK, 1);
  assert.equal(Frame.fromSparse(0, { ...tied, ids: [9, 0, 1] }).maxTopK, 3);
  refused("frame_insufficient", () => Frame.fromSparse(0, { ids: [5, 7], logits: Float32Array.of(1, 1), vocab: 50 }));
  const whole = Frame.fromSparse(0, best(logits, 64));
  assert.equal(whole.maxTopK, null);
  assert.deepEqual(whole.logits({}), logits);
  refused("logits_type", () => Frame.fromSparse(0, { ...tied, logits: Float64Array.of(2, 1, 1) }));
  for (const bad of [null, undefined, logits, [], Promise.resolve(tied), new Map()]) refused("sparse_type", () => Frame.fromSparse(0, bad));
  for (const thing of [frame, same, whole]) thing.free();
});

test("what is no sparse row is refused and named", () => {
  const good = { ids: [7, 3, 5], logits: Float32Array.of(3, 2, 1), vocab: 9 };
  const at = (changes) => () => sampleToken({ ...good, ...changes }, { topK: 1 }, 0.5);
  assert.equal(at({})(), 7);
  assert.equal(at({ ids: Uint32Array.of(7, 3, 5) })(), 7);
  assert.equal(at({ ids: [7n, 3n, 5n], logits: Float64Array.of(3, 2, 1) })(), 7);
  for (const name of Object.keys(good)) assert.match(refused("field_missing", at({ [name]: undefined })).message, new RegExp(name));
  refused("field_unknown", at({ extra: 1 }));
  refused("sparse_lengths_differ", at({ ids: [7, 3] }));
  refused("logits_empty", at({ ids: [], logits: new Float32Array(0) }));
  assert.deepEqual((({ index, value }) => [index, value])(refused("sparse_id_out_of_range", at({ ids: [7, 9, 5] }))), [1, 9]);
  assert.deepEqual((({ index, value }) => [index, value])(refused("sparse_id_repeated", at({ ids: [7, 3, 7] }))), [2, 7]);
  assert.equal(refused("logits_nan", at({ logits: Float32Array.of(3, Number.NaN, 1) })).index, 1);
  assert.equal(refused("logits_positive_infinity", at({ logits: Float64Array.of(Infinity, 2, 1) })).index, 0);
  refused("logits_all_banned", at({ vocab: 3, ids: [0, 1, 2], logits: new Float32Array(3).fill(-Infinity) }));
  refused("frame_insufficient", at({ logits: new Float32Array(3).fill(-Infinity) }));
  refused("tokens_type", at({ ids: "7" }));
  refused("token_out_of_range", at({ ids: [7, -3, 5] }));
  refused("logits_type", at({ logits: [3, 2, 1] }));
  for (const vocab of [-1, 1.5, "9", 9n, 2 ** 32]) refused("token_out_of_range", at({ vocab }));
  // Rows that are judged together are whole.
  refused("logits_type", () => sampleBatch(good, 9, { topK: 1 }, [0.5]));
  const run = straight(0);
  assert.equal(refused("logits_type", () => stepBatch([run], () => [good])).row, 0);
  refused("logits_type", () => run.stepWithDrafts([good], []));
  assert.equal(run.position, 0);
  run.free();
  refused("logits_type", () => new Generator(() => Promise.resolve(good), [], "1", { topK: 1 }).step());
});

