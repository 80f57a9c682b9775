// Inputs that are often accepted silently: objects that are no settings, rows of another length, ids and settings in other forms.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { distribution, firstDivergence, Frame, Generator, loadState, logitsBuffer, mosaicDecision, mosaicStep, sampleBatch, sampleToken, speculativeStep, stepBatch, verify } from "@quillmate/sampler";
import { model, refused, row, straight } from "./support.mjs";

class Named {
  temperature = 0.5;
}
/** Objects that hold nothing a reader of properties would see, and would pass for `{}`. */
const others = [
  [Promise.resolve({ temperature: 0 }), /Promise/],
  [new Map([["temperature", 0]]), /Map/],
  [new Date(0), /Date/],
  [new Set(), /Set/],
  [/x/, /RegExp/],
  [new Error("x"), /Error/],
  [new Named(), /Named/],
  [Object.create({ temperature: 0 }), /an? (object|instance)/],
  [new Float32Array(0), /Float32Array/],
  [new ArrayBuffer(0), /ArrayBuffer/],
  [[], /array/],
  [() => ({}), /function/],
  [new Proxy(new Map(), {}), /Map/],
];

test("what is no plain object is refused by name wherever an object is taken", () => {
  const run = straight(2);
  const state = run.state();
  const record = { start: state, frames: [] };
  const logits = row([]);
  const strategy = { temperature: 1, topK: 2, topP: 1 };
  mosaicDecision(logits, strategy, "1", 0);
  for (const [other, name] of others) {
    const refusals = [
      refused("settings_type", () => sampleToken(logits, other, 0)),
      refused("settings_type", () => distribution(logits, other)),
      refused("settings_type", () => new Generator(model, [], "1", other)),
      refused("settings_type", () => Frame.forSettings(0, logits, other)),
      refused("settings_type", () => Frame.dense(0, logits).sufficesFor(other)),
      refused("field_type", () => Generator.fromState(model, other)),
      refused("field_type", () => Generator.fromState(model, { ...state, settings: other })),
      refused("field_type", () => loadState(other)),
      refused("field_type", () => mosaicStep(other, logits)),
      refused("strategy_type", () => mosaicDecision(logits, other, "1", 0)),
      refused("field_type", () => verify(other, { tokens: [1], state })),
      refused("field_type", () => verify({ ...record, start: other }, { tokens: [1], state })),
      refused("field_type", () => verify(record, other)),
      refused("field_type", () => verify(record, { tokens: [1], state: other })),
      refused("field_type", () => run.trace(logits, other)),
      refused("field_type", () => new Generator(model, [], "1", { processors: [other] })),
      refused("drafts_type", () => run.stepSpeculative([logits, logits], [other])),
    ];
    for (const { message, code } of refusals) if (!(code === "field_type" && /is a list/.test(message))) assert.match(message, name);
    if (!Array.isArray(other)) {
      const [answer] = sampleBatch(logits, 64, [other], [0.5]);
      assert.equal(answer.code, "settings_type");
      // (A list is one of traces there.)
      assert.match(refused("field_type", () => firstDivergence(other, {})).message, name);
    }
  }
  assert.match(refused("settings_type", () => sampleToken(logits, Promise.resolve({}), 0)).message, /await it first/);
  // Plain objects of any making.
  const plain = [Object.assign(Object.create(null), { temperature: 0 }), runInNewContext("({ temperature: 0 })"), new Proxy({ temperature: 0 }, {}), JSON.parse('{"temperature":0}')];
  for (const settings of plain) assert.equal(sampleToken(logits, settings, 0), sampleToken(logits, { temperature: 0 }, 0));
  assert.equal(run.position, 2);
  run.free();
});

test("settings in the spelling of a state", () => {
  const run = straight(3);
  const { settings } = run.state();
  assert.deepEqual(settings, { temperature: 0.8, top_k: 40, top_p: 0.95 });
  const again = new Generator(model, [1, 2, 3], "42", settings);
  for (let n = 0; n < 3; n++) again.step();
  assert.deepEqual(again.state(), run.state());
  assert.deepEqual({ ...again.settings }, { temperature: 0.8, topK: 40, topP: 0.95 });
  for (let n = 0; n < 50; n++) {
    const [logits, u] = [row([n]), n / 50];
    assert.equal(sampleToken(logits, settings, u), sampleToken(logits, run.settings, u));
    assert.equal(sampleToken(logits, { temperature: 0.8, top_k: 40, topP: 0.95 }, u), sampleToken(logits, settings, u));
  }
  const frame = Frame.forSettings(3, row([], 200), settings);
  assert.equal(frame.maxTopK, 40);
  const strategy = { temperature: 0.8, top_k: 3, top_p: 0.9 };
  assert.deepEqual(mosaicDecision(row([]), strategy, "42", 0), mosaicDecision(row([]), { temperature: 0.8, topK: 3, topP: 0.9 }, "42", 0));
  for (const [a, b] of [["topK", "top_k"], ["topP", "top_p"]]) {
    for (const [first, second] of [[a, b], [b, a]]) {
      const both = { temperature: 1, topK: 1, topP: 1, [first]: 1, [second]: 1 };
      assert.match(refused("field_repeated", () => sampleToken(row([]), both, 0)).message, new RegExp(`both.*${a === "topK" ? "(topK and top_k|top_k and topK)" : "(topP and top_p|top_p and topP)"}`));
      refused("field_repeated", () => new Generator(model, [], "1", both));
      refused("field_repeated", () => mosaicDecision(row([]), both, "1", 0));
    }
    // A row at temperature 0 looks at neither, however it is spelled; a run stores its settings and does.
    assert.equal(sampleToken(row([]), { temperature: 0, [a]: -1, [b]: "x" }), sampleToken(row([]), { temperature: 0 }));
    refused("field_repeated", () => new Generator(model, [], "1", { temperature: 0, [a]: 1, [b]: 1 }));
    // Left out is left out.
    sampleToken(row([]), { [a]: undefined, [b]: 1 }, 0);
  }
  for (const thing of [run, again, frame]) thing.free();
});

test("a message names what was written", () => {
  const named = (code, name, call) => assert.match(refused(code, call).message, new RegExp(`^${name} must be `));
  const logits = row([]);
  for (const name of ["topK", "top_k"]) {
    for (const value of [-1, 1.5, "3"]) named("top_k_out_of_range", name, () => sampleToken(logits, { [name]: value }, 0));
    named("top_k_out_of_range", name, () => mosaicDecision(logits, { temperature: 1, topP: 1, [name]: -1 }, "1", 0));
  }
  for (const name of ["topP", "top_p"]) named("top_p_out_of_range", name, () => sampleToken(logits, { [name]: 2 }, 0));
  for (const k of [0, -1, 1.5, "3", undefined]) named("top_k_out_of_range", "k", () => Frame.sparse(0, logits, k));
  named("draw_index_out_of_range", "drawIndex", () => mosaicDecision(logits, "greedy", "1", -1));
  const half = Float64Array.of(0.5, 0.5);
  named("uniform_out_of_range", "uAccept", () => speculativeStep(half, half, 0, 1, 0));
  named("uniform_out_of_range", "uResample", () => speculativeStep(half, half, 0, 0, -1));
  named("uniform_out_of_range", "u", () => sampleToken(logits, {}, 1));
  named("token_out_of_range", "vocab", () => logitsBuffer(-1));
  assert.doesNotMatch(refused("token_out_of_range", () => logitsBuffer(-1)).message, /token id/);
  const large = refused("logits_too_long", () => logitsBuffer(5e8));
  assert.match(refused("logits_empty", () => logitsBuffer(0)).message, /^vocab must be from 1/);
  assert.deepEqual([large.message, large.value], ["vocab must be from 1 to 67108864, but is 500000000", 5e8]);
  assert.doesNotMatch(refused("top_k_above_vocabulary", () => mosaicDecision(logits, { temperature: 1, topK: 65, topP: 1 }, "1", 0)).message, /top_k/);
});

test("token ids as tensors have them", () => {
  const expected = straight(5);
  for (const prompt of [[1n, 2n, 3n], [1, 2n, 3], BigInt64Array.of(1n, 2n, 3n), BigUint64Array.of(1n, 2n, 3n), Int32Array.of(1, 2, 3)]) {
    const run = straight(5, { prompt });
    assert.deepEqual(run.state(), expected.state());
    const state = { ...run.state(), prompt, tokens: BigInt64Array.from(run.tokens, BigInt) };
    const resumed = Generator.fromState(model, state);
    assert.deepEqual(resumed.state(), expected.state());
    const frames = [Frame.dense(5, row([1, 2, 3, ...run.tokens]))];
    const token = resumed.stepWithFrame(frames[0]);
    const record = { start: run.state(), frames: frames.map((frame) => frame.encode()) };
    assert.deepEqual(verify(record, { tokens: [BigInt(token)], state: resumed.state() }), { verdict: "match", steps: 1 });
    for (const thing of [run, resumed, ...frames]) thing.free();
  }
  const run = straight(0);
  const rows = [row([1, 2, 3])];
  rows.push(row([1, 2, 3, expected.tokens[0]]));
  assert.equal(run.stepWithDrafts(rows, BigInt64Array.of(BigInt(expected.tokens[0]))).accepted, 1);
  run.free();
  assert.equal(refused("token_out_of_range", () => new Generator(null, BigInt64Array.of(1n, -1n), "1")).index, 1);
  assert.equal(refused("token_out_of_range", () => new Generator(null, BigUint64Array.of(2n ** 32n), "1")).index, 0);
  assert.equal(refused("token_out_of_range", () => new Generator(null, Int32Array.of(1, 2, -3), "1")).index, 2);
  for (const bad of [Int8Array.of(1), Uint16Array.of(1), Float64Array.of(1)]) refused("tokens_type", () => new Generator(null, bad, "1"));
  const state = expected.state();
  refused("field_type", () => Generator.fromState(model, { ...state, prompt: [2n ** 32n] }));
  refused("field_type", () => Generator.fromState(model, { ...state, prompt: [-1n] }));
  refused("field_type", () => Generator.fromState(model, { ...state, step: 5n }));
  // How many logits there are is no id.
  refused("token_out_of_range", () => logitsBuffer(4n));
  refused("token_out_of_range", () => sampleBatch(row([]), 64n, {}, [0.5]));
  expected.free();
});

test("half floats, where the engine has them", { skip: typeof Float16Array === "undefined" && "this engine has no Float16Array" }, () => {
  const half = Float16Array.from(row([]));
  const wide = Float32Array.from(half);
  for (let n = 0; n < 20; n++) assert.equal(sampleToken(half, {}, n / 20), sampleToken(wide, {}, n / 20));
  const frame = Frame.dense(0, half);
  assert.equal(frame.dtype, "f16");
  assert.deepEqual(frame.logits({}), wide);
  frame.free();
});

test("the rows of one run have one length", () => {
  const settings = { temperature: 0.8, topP: 0.9 };
  const run = new Generator(null, [1], "7", settings);
  // What is refused, and what only looks, fixes nothing.
  refused("logits_nan", () => run.stepWith(new Float32Array(9).fill(Number.NaN)));
  run.decision(row([], 5));
  run.trace(row([], 6));
  run.stepWith(row([1]));
  const before = JSON.stringify(run.state());
  // The logits of two positions at once.
  const tensor = new Float32Array(128);
  const longer = refused("logits_length_changed", () => run.stepWith(tensor));
  assert.equal(longer.value, 128);
  assert.match(longer.message, /64.*128/);
  for (const call of [
    () => run.stepWith(row([], 63)),
    () => run.decision(row([], 65)),
    () => run.trace(row([], 65)),
    () => run.stepWithFrame(Frame.dense(1, row([], 65))),
    () => run.stepWithDrafts([row([], 65)], []),
    () => run.stepSpeculative([row([], 65)], []),
    () => run.stepSpeculative([row([], 65), row([], 65)], [{ token: 1, ids: [1], probabilities: Float64Array.of(1) }]),
  ]) {
    refused("logits_length_changed", call);
    assert.equal(JSON.stringify(run.state()), before);
  }
  const best = new Generator(null, [1], "7", { topK: 1 });
  best.stepWith({ ids: [3, 1], logits: Float32Array.of(2, 1), vocab: 64 });
  best.stepWith(row([]));
  refused("logits_length_changed", () => best.stepWith({ ids: [3, 1], logits: Float32Array.of(2, 1), vocab: 65 }));
  refused("logits_length_changed", () => best.decision({ ids: [3, 1], logits: Float32Array.of(2, 1), vocab: 65 }));
  assert.equal(best.position, 2);
  const [answer] = stepBatch([run], () => [row([], 65)]);
  assert.deepEqual([answer.code, answer.row], ["logits_length_changed", 0]);
  // A chain whose second row has another length emits nothing, and fixes nothing.
  const fresh = new Generator(null, [1], "7", settings);
  const first = run.tokens[0];
  assert.equal(refused("logits_length_changed", () => fresh.stepWithDrafts([row([1]), row([], 65)], [first])).row, 1);
  assert.equal(fresh.position, 0);
  fresh.stepWith(row([], 70));
  // A state does not know the length: what resumes it takes any.
  const resumed = Generator.fromState(null, JSON.parse(before));
  resumed.stepWith(row([], 90));
  refused("logits_length_changed", () => resumed.stepWith(row([])));
  for (const thing of [run, best, fresh, resumed]) thing.free();
});

test("what is undefined counts as left out, under whatever name", () => {
  const logits = row([1, 2, 3]);
  const settings = { temperature: 0.7, topK: 5, topP: undefined, processors: undefined, min_p: undefined };
  const expected = sampleToken(logits, { temperature: 0.7, topK: 5 }, 0.6);
  assert.equal(sampleToken(logits, settings, 0.6), expected);
  assert.deepEqual(sampleBatch(logits, 64, [settings], [0.6]), [expected]);
  assert.deepEqual(distribution(logits, settings), distribution(logits, { temperature: 0.7, topK: 5 }));
  new Generator(null, [], 1, settings).free();
  const sparse = { ids: Uint32Array.from(logits, (_, at) => at), logits, vocab: 64 };
  assert.equal(sampleToken({ ...sparse, step: undefined }, settings, 0.6), expected);
  // What has a value is refused as before.
  refused("field_unknown", () => sampleToken(logits, { ...settings, processors: [] }, 0.6));
  refused("field_unknown", () => sampleToken(logits, { ...settings, min_p: null }, 0.6));
  refused("field_unknown", () => sampleToken({ ...sparse, step: 0 }, settings, 0.6));
});

test("rows that are no array: the message names every kind of row, and says of a promise to await it", () => {
  const run = straight(1);
  for (const call of [() => run.stepWithDrafts(Promise.resolve([]), []), () => stepBatch([run], async () => [])]) {
    assert.match(refused("rows_type", call).message, /Float32Array, Float64Array or Float16Array \(await it first\), but is a Promise/);
  }
  assert.doesNotMatch(refused("rows_type", () => run.stepWithDrafts({}, [])).message, /await/);
  assert.equal(run.position, 1);
  run.free();
});
