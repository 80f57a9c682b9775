// Batches: every row and every generator gives the same result as alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Generator, logitsBuffer, sampleBatch, sampleToken, stepBatch, uniform } from "@quillmate/sampler";
import { contract, model, numbers, refused, row, settingsOf } from "./support.mjs";

test("every sample vector of one width, in one batch", () => {
  const byWidth = Map.groupBy?.(contract.sample, (c) => c.logits.length) ?? new Map();
  if (byWidth.size === 0) for (const c of contract.sample) byWidth.set(c.logits.length, [...(byWidth.get(c.logits.length) ?? []), c]);
  let ran = 0;
  for (const [vocab, group] of byWidth) {
    const rows = group.flatMap((c) => c.draws.map(([u, token]) => ({ logits: numbers(c.logits), settings: settingsOf(c), u, token })));
    const flat = new Float64Array(rows.length * vocab);
    rows.forEach((r, at) => flat.set(r.logits, at * vocab));
    const settings = rows.map((r) => r.settings);
    assert.deepEqual(sampleBatch(flat, vocab, settings, rows.map((r) => r.u)), rows.map((r) => r.token));
    assert.deepEqual(sampleBatch(flat, vocab, settings, Float64Array.from(rows, (r) => r.u)), rows.map((r) => r.token));
    ran += rows.length;
  }
  assert.equal(ran, contract.sample.reduce((n, c) => n + c.draws.length, 0));
});

test("a bad row costs only itself", () => {
  const logits = Float32Array.of(1, 2, NaN, 0, -Infinity, -Infinity, 3, 1, 3, 1, 3, 1, 3, 1);
  const settings = [{}, {}, {}, { topP: 2 }, { topk: 3 }, {}, { temperature: 0, topP: 2 }];
  const answers = sampleBatch(logits, 2, settings, [0.9, 0.5, 0.5, 0.5, 0.5, 1, 1]);
  assert.equal(answers[0], 1);
  assert.equal(answers[6], 0, "temperature 0 looks at neither topP nor u");
  const codes = ["logits_nan", "logits_all_banned", "top_p_out_of_range", "field_unknown", "uniform_out_of_range"];
  codes.forEach((code, at) => {
    const error = answers[at + 1];
    assert.ok(error instanceof Error, String(error));
    assert.equal(error.code, code);
    assert.equal(error.row, at + 1);
  });
  assert.equal(answers[1].index, 0);
});

test("one settings object stands for all rows", () => {
  const rows = [row([1]), row([2]), row([3])];
  const flat = new Float32Array(rows.flatMap((r) => [...r]));
  const settings = { temperature: 0.7, topK: 9 };
  const u = rows.map((_, at) => uniform(5, at));
  assert.deepEqual(sampleBatch(flat, 64, settings, u), rows.map((r, at) => sampleToken(r, settings, u[at])));
  assert.deepEqual(sampleBatch(flat, 64, undefined, u), rows.map((r, at) => sampleToken(r, undefined, u[at])));
  assert.deepEqual(sampleBatch(new Float32Array(), 64, [], []), []);
  // One that is wrong is refused for each row, and each error names its own.
  assert.deepEqual(sampleBatch(flat, 64, { topP: 2 }, u).map((error) => [error.code, error.row]), [0, 1, 2].map((at) => ["top_p_out_of_range", at]));
});

test("parts that do not fit are refused whole", () => {
  const logits = new Float32Array(4);
  refused("batch_logits_length", () => sampleBatch(logits, 3, {}, [0.1, 0.2]));
  refused("batch_logits_length", () => sampleBatch(logits, 4294967295, {}, [0.1, 0.2]));
  refused("batch_settings_length", () => sampleBatch(logits, 2, [{}, {}, {}], [0.1, 0.2]));
  refused("batch_settings_length", () => sampleBatch(logits, 2, [{}], [0.1, 0.2]));
  refused("logits_type", () => sampleBatch([1, 2, 3, 4], 2, {}, [0.1, 0.2]));
  refused("uniforms_type", () => sampleBatch(logits, 2, {}, 0.5));
});

const four = () => [
  new Generator(null, [], 41, { temperature: 0 }),
  new Generator(null, [1, 2], "42", { topP: 0.8 }),
  new Generator(null, [3], 43n, { temperature: 0.7, topK: 5, topP: 0.95 }),
  new Generator(null, [1, 2, 3, 4], 44, { temperature: 2.5 }),
];
const alone = (generator, steps) => {
  const copy = Generator.fromState(model, generator.state());
  for (let at = 0; at < steps; at++) copy.step();
  return copy.state();
};
const batchModel = (contexts) => contexts.map((context) => row(context));

test("generators in any order, coming and going", () => {
  const expected = four().map((generator) => alone(generator, 6));
  for (const order of [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]]) {
    const generators = four();
    let asked = 0;
    for (let step = 0; step < 6; step++) {
      const batch = order.map((at) => generators[at]);
      const tokens = stepBatch(batch, (contexts) => {
        asked += 1;
        return batchModel(contexts);
      });
      tokens.forEach((token, at) => assert.equal(token, batch[at].tokens.at(-1)));
    }
    assert.equal(asked, 6);
    assert.deepEqual(generators.map((generator) => generator.state()), expected);
  }
  assert.deepEqual(stepBatch([], () => assert.fail("asked for nobody")), []);
});

test("a mate that is refused stays, the others advance", () => {
  for (const poison of [NaN, -Infinity, Infinity]) {
    const generators = four();
    const before = generators.map((generator) => generator.state());
    const answers = stepBatch(generators, (contexts) => batchModel(contexts).map((r, at) => (at === 2 ? r.fill(poison) : r)));
    assert.ok(answers[2] instanceof Error);
    assert.equal(answers[2].row, 2);
    assert.deepEqual(generators[2].state(), before[2]);
    for (const at of [0, 1, 3]) assert.equal(generators[at].position, 1);
  }
});

test("a model that fails or miscounts advances nobody", () => {
  const generators = four();
  const before = generators.map((generator) => generator.state());
  const failure = new TypeError("no memory");
  assert.throws(() => stepBatch(generators, () => { throw failure; }), (error) => error === failure);
  refused("batch_rows", () => stepBatch(generators, (contexts) => batchModel(contexts).slice(1)));
  assert.equal(refused("batch_width", () => stepBatch(generators, (contexts) => batchModel(contexts).map((r, at) => r.subarray(at === 3 ? 1 : 0)))).index, 3);
  refused("rows_type", () => stepBatch(generators, () => new Float32Array(256)));
  refused("rows_type", () => stepBatch(generators, async (contexts) => batchModel(contexts)));
  assert.equal(refused("logits_type", () => stepBatch(generators, (contexts) => contexts.map((c) => [...row(c)]))).row, 0);
  assert.equal(refused("generator_repeated", () => stepBatch([generators[0], generators[1], generators[0]], batchModel)).index, 2);
  assert.equal(refused("generators_type", () => stepBatch([generators[0], {}], batchModel)).index, 1);
  refused("generators_type", () => stepBatch(generators[0], batchModel));
  refused("model_type", () => stepBatch(generators, null));
  assert.deepEqual(generators.map((generator) => generator.state()), before);
  assert.equal(stepBatch(generators, batchModel).length, 4);
});

test("a model of a batch may look at its generators, not step them", () => {
  const generators = four();
  stepBatch(generators, (contexts) => {
    assert.equal(generators[0].position, 0);
    assert.equal(generators[1].state().step, 0);
    refused("generator_busy", () => generators[0].stepWith(row([])));
    assert.equal(refused("generator_busy", () => stepBatch([generators[1]], batchModel)).index, 0);
    refused("generator_busy", () => generators[2].stepWithDrafts([row([])], []));
    return batchModel(contexts);
  });
  assert.deepEqual(generators.map((generator) => generator.position), [1, 1, 1, 1]);
});

test("without a model each generator asks its own, as it does alone", () => {
  const own = (settings, shift = 0) => new Generator((context) => row([shift, ...context]), [1], 41 + shift, settings);
  const make = () => [own({ temperature: 0 }), own({ topP: 0.8 }, 1), own({ topK: 5 }, 2), own({ temperature: 2.5 }, 3)];
  const alone = make();
  for (const order of [[0, 1, 2, 3], [3, 1, 0, 2]]) {
    const generators = make();
    for (let step = 0; step < 6; step++) {
      const tokens = stepBatch(order.map((at) => generators[at]));
      tokens.forEach((token, at) => assert.equal(token, generators[order[at]].tokens.at(-1)));
    }
    if (alone[0].position === 0) alone.forEach((generator) => { for (let step = 0; step < 6; step++) generator.step(); });
    assert.deepEqual(generators.map((generator) => generator.state()), alone.map((generator) => generator.state()));
  }
  assert.deepEqual(stepBatch([]), []);
  assert.deepEqual(stepBatch([], undefined), []);
});

test("a generator whose own model fails costs only itself", () => {
  const failure = new TypeError("no memory");
  const models = [
    model,
    () => { throw failure; },
    null,
    async (context) => row(context),
    () => Float32Array.of(0, NaN),
    () => { throw 7; },
    (context) => row(context, 90),
  ];
  const generators = models.map((own, at) => new Generator(own, [at], 5));
  const answers = stepBatch(generators);
  const codes = [undefined, "model_failed", "model_missing", "logits_type", "logits_nan", "model_failed", undefined];
  answers.forEach((answer, at) => {
    assert.equal(answer.code, codes[at], String(answer));
    assert.equal(generators[at].position, codes[at] ? 0 : 1);
    if (codes[at]) assert.deepEqual([answer.name, answer.row], ["SamplerError", at]);
  });
  assert.equal(answers[1].cause, failure);
  assert.equal(answers[5].cause, 7);
  const [first, last] = [0, 6].map((at) => new Generator(models[at], [at], 5).step());
  assert.deepEqual([answers[0], answers[6]], [first, last]);
  assert.equal(refused("generator_repeated", () => stepBatch([generators[0], generators[0]])).index, 1);
  assert.equal(refused("generators_type", () => stepBatch([generators[0], {}])).index, 1);
});

test("a generator's own model can step none of the batch, and all are asked before any advances", () => {
  const seen = [];
  const generators = [0, 1, 2].map((at) => new Generator((context) => {
    seen.push(generators.map((generator) => generator.position));
    for (const generator of generators) refused("generator_busy", () => generator.stepWith(row([])));
    assert.deepEqual(stepBatch(generators).map(({ code }) => code), ["generator_busy", "generator_busy", "generator_busy"]);
    return row(context);
  }, [at], 6));
  assert.ok(stepBatch(generators).every((token) => typeof token === "number"));
  assert.deepEqual(seen, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]);
  // All models fill the same logitsBuffer; each generator must get the logits of its own model.
  const lending = [3, 5].map((best) => new Generator(() => { const buffer = logitsBuffer(8); buffer.fill(0); buffer[best] = 9; return buffer; }, [], 1, { temperature: 0 }));
  assert.deepEqual(stepBatch(lending), [3, 5]);
});

test("a model cannot free the generators it is asked for", () => {
  const generators = four();
  const tokens = stepBatch(generators, (contexts) => {
    for (const generator of generators) refused("generator_busy", () => generator.free());
    return batchModel(contexts);
  });
  assert.equal(tokens.length, 4);
  for (const generator of generators) {
    assert.equal(generator.position, 1);
    generator.free();
    refused("freed", () => generator.position);
  }
});

test("a getter of the model's answer cannot step a generator that waits for it", () => {
  /** What the getter met, in the place of a sparse row's logits or of a row of the batch. */
  const met = [];
  const attempt = (call) => {
    try {
      met.push(call());
    } catch (error) {
      met.push(error.code);
    }
  };
  const logits = row([7]);
  const ids = Uint32Array.from(logits, (_, at) => at);
  let generators = [];
  const answer = () => ({
    ids,
    get logits() {
      for (const generator of generators) attempt(() => generator.stepWith(row([8])));
      return logits;
    },
    vocab: 64,
  });
  const settings = { temperature: 0.8, topK: 5 };
  const expected = [1, 2].map((seed) => sampleToken(logits, settings, uniform(seed, 0)));

  generators = [new Generator(answer, [], 1, settings)];
  assert.equal(generators[0].step(), expected[0]);
  assert.equal(generators[0].position, 1);
  assert.ok(met.length > 0 && met.every((code) => code === "generator_busy"), String(met));

  met.length = 0;
  generators = [1, 2].map((seed) => new Generator(answer, [], seed, settings));
  assert.deepEqual(stepBatch(generators), expected);
  assert.ok(met.length > 0 && met.every((code) => code === "generator_busy"), String(met));

  met.length = 0;
  generators = [1, 2].map((seed) => new Generator(null, [], seed, settings));
  const rows = new Proxy([logits, logits], {
    get(list, key) {
      if (key === "1") attempt(() => generators[0].stepWith(row([8])));
      return Reflect.get(list, key);
    },
  });
  assert.deepEqual(stepBatch(generators, () => rows), expected);
  assert.ok(met.length > 0 && met.every((code) => code === "generator_busy"), String(met));

  // One that throws fails its own row, and what it throws is no token.
  const thrown = (what) => () => ({ ids, vocab: 64, get logits() { throw what; } });
  generators = [new Generator(thrown(5), [], 1, settings), new Generator(thrown(new RangeError("boom")), [], 1, settings), new Generator(() => logits, [], 1, settings)];
  const [five, boom, token] = stepBatch(generators);
  assert.deepEqual([five.code, five.row, five.cause], ["model_failed", 0, 5]);
  assert.deepEqual([boom.code, boom.row, boom.cause.message], ["model_failed", 1, "boom"]);
  assert.equal(token, expected[0]);
  for (const generator of generators) generator.stepWith(logits);
});
