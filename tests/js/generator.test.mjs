// Generator: stored, resumed, and unchanged by every call that throws.
import assert from "node:assert/strict";
import { test } from "node:test";
import init, { Frame, Generator, sampleToken, stateSchema, uniform } from "@quillmate/sampler";
import { model, refused, row, straight } from "./support.mjs";

const settings = { temperature: 0.8, topK: 40, topP: 0.95 };
const snapshot = (run) => JSON.stringify(run.state());

/** `call` must leave `run` as it was, and able to go on. */
function unchanged(run, call) {
  const before = snapshot(run);
  const result = call();
  assert.equal(snapshot(run), before);
  return result;
}

test("a run is sampleToken over uniform(seed, n)", () => {
  const run = new Generator(model, [1, 2, 3], "42", settings);
  const tokens = [1, 2, 3];
  for (let n = 0; n < 20; n++) {
    assert.equal(run.position, n);
    const token = sampleToken(row(tokens), settings, uniform("42", n));
    assert.equal(run.step(), token);
    tokens.push(token);
  }
  assert.deepEqual([...run.tokens], tokens.slice(3));
  assert.deepEqual([...run.prompt], [1, 2, 3]);
  assert.equal(run.seed, "42");
  assert.deepEqual({ ...run.settings }, settings);
  run.free();
});

test("step, stepWith and stepWithFrame emit the same", () => {
  const [a, b, c] = [0, 1, 2].map(() => new Generator(model, Uint32Array.of(7), 1n, settings));
  const [d] = [new Generator(null, [7], "1", settings)];
  for (let n = 0; n < 12; n++) {
    const logits = row([7, ...a.tokens]);
    const frame = Frame.forSettings(n, logits, settings);
    const token = a.step();
    assert.equal(b.stepWith(logits), token);
    assert.equal(c.stepWithFrame(frame), token);
    assert.equal(d.stepWith(Float64Array.from(logits)), token);
    frame.free();
  }
  for (const run of [a, b, c, d]) run.free();
});

test("the getters give copies", () => {
  const run = straight(5);
  const { tokens, prompt } = run;
  const before = snapshot(run);
  tokens.fill(0);
  prompt.fill(0);
  run.settings.temperature = 9;
  run.state().tokens.push(1);
  assert.equal(snapshot(run), before);
  run.free();
});

test("the state is plain JSON, as the schema names it", () => {
  const run = straight(7);
  const state = run.state();
  assert.equal(Object.getPrototypeOf(state), Object.prototype);
  assert.ok(Array.isArray(state.tokens) && Array.isArray(state.prompt));
  assert.deepEqual(JSON.parse(JSON.stringify(state)), state);
  assert.deepEqual(structuredClone(state), state);
  assert.deepEqual(state, {
    contract: "quillmate-v1",
    format: 1,
    seed: "42",
    step: 7,
    prompt: [1, 2, 3],
    tokens: [...run.tokens],
    settings: { temperature: 0.8, top_k: 40, top_p: 0.95 },
  });
  const schema = JSON.parse(stateSchema());
  assert.deepEqual(Object.keys(state).sort(), Object.keys(schema.properties).sort());
  run.free();
});

test("saved after 7 and resumed: the 15 tokens of a straight run", () => {
  const whole = straight(15);
  const first = straight(7);
  const text = JSON.stringify(first.state());
  first.free();
  const second = Generator.fromState(model, JSON.parse(text));
  assert.equal(second.position, 7);
  for (let i = 0; i < 8; i++) second.step();
  assert.deepEqual(second.tokens, whole.tokens);
  assert.equal(snapshot(second), snapshot(whole));
  // And at every other place.
  for (let n = 0; n <= 15; n++) {
    const part = straight(n);
    const rest = Generator.fromState(model, JSON.parse(JSON.stringify(part.state())));
    for (let i = n; i < 15; i++) rest.step();
    assert.deepEqual(rest.tokens, whole.tokens);
    part.free();
    rest.free();
  }
  second.free();
  whole.free();
});

test("settings come back to the bit", () => {
  for (const temperature of [1.5777777777770001, 0.1 + 0.2, Number.MIN_VALUE, Number.MAX_VALUE, 1 / 3]) {
    const run = new Generator(model, [], "1", { temperature, topP: 2 / 3 });
    const resumed = Generator.fromState(model, JSON.parse(JSON.stringify(run.state())));
    assert.equal(resumed.settings.temperature, temperature);
    assert.equal(resumed.settings.topP, 2 / 3);
    run.free();
    resumed.free();
  }
});

test("states that are refused, and why", () => {
  const run = straight(3);
  const good = run.state();
  run.free();
  const from = (state) => () => Generator.fromState(model, state);
  const but = (changes) => from({ ...good, ...changes });
  const without = (name) => from(Object.fromEntries(Object.entries(good).filter(([key]) => key !== name)));
  const set = (changes) => but({ settings: { ...good.settings, ...changes } });

  for (const name of Object.keys(good)) refused("field_missing", without(name));
  for (const name of Object.keys(good.settings)) {
    const { [name]: _, ...rest } = good.settings;
    refused("field_missing", but({ settings: rest }));
  }
  refused("field_unknown", but({ extra: 1 }));
  refused("field_unknown", set({ top_q: 1 }));
  refused("contract_unknown", but({ contract: "quillmate-v2" }));
  refused("contract_unknown", but({ contract: "mosaic-splitmix64-top-k-top-p-v1" }));
  refused("format_unknown", but({ format: 2 }));
  for (const seed of [42, null, ["42"]]) refused("seed_not_string", but({ seed }));
  // A bigint is no JSON.
  assert.throws(but({ seed: 42n }), { name: "SamplerError", code: /^(seed_not_string|field_type)$/ });
  for (const seed of ["", "01", "-1", " 1", "1.5", "18446744073709551616"]) refused("seed_malformed", but({ seed }));
  for (const step of [2, 4, 0]) refused("step_mismatch", but({ step }));
  for (const step of [-1, 1.5, "3", null, NaN]) refused("field_type", but({ step }));
  for (const tokens of ["1", null, { 0: 1 }, [1, 2, -1], [1, 2, 1.5], [1, 2, 2 ** 32], [1, 2, "3"], [1, 2, null]]) {
    refused("field_type", but({ tokens }));
    refused("field_type", but({ prompt: tokens }));
  }
  for (const settings of [null, 1, "x", []]) refused("field_type", but({ settings }));
  refused("temperature_out_of_range", set({ temperature: -1 }));
  refused("top_k_out_of_range", set({ top_k: 1.5 }));
  refused("top_k_out_of_range", set({ top_k: -1 }));
  refused("top_p_out_of_range", set({ top_p: 1.01 }));
  for (const value of ["1", null, true]) {
    for (const name of ["temperature", "top_k", "top_p"]) refused("field_type", set({ [name]: value }));
  }
  for (const state of [null, undefined, 1, "x", [], () => {}, JSON.stringify(good)]) {
    const error = assert.throws(from(state), (e) => e instanceof Error && typeof e.code === "string");
    assert.equal(error, undefined);
  }
});

test("arguments of a new run", () => {
  for (const bad of [5, "x", {}, [], true, 1n]) refused("model_type", () => new Generator(bad, [], "1"));
  for (const bad of [null, undefined, 5, "12", {}, Float32Array.of(1), Uint8Array.of(1), new Set([1])]) {
    refused("tokens_type", () => new Generator(model, bad, "1"));
  }
  for (const bad of [-1, 1.5, 2 ** 32, "1", NaN, null, undefined, -1n, 2n ** 32n, 2n ** 64n]) {
    assert.equal(refused("token_out_of_range", () => new Generator(model, [0, bad], "1")).index, 1);
  }
  refused("temperature_out_of_range", () => new Generator(model, [], "1", { temperature: -1 }));
  const run = new Generator(model, [0, 2 ** 32 - 1], "1");
  assert.deepEqual({ ...run.settings }, { temperature: 1, topK: 0, topP: 1 });
  run.free();
});

test("the model gets its own copy of prompt and tokens", () => {
  const seen = [];
  const run = new Generator(
    (tokens) => {
      assert.ok(tokens instanceof Uint32Array);
      seen.push([...tokens]);
      const logits = row(tokens);
      tokens.fill(0);
      return logits;
    },
    [1, 2, 3],
    "42",
    settings,
  );
  for (let i = 0; i < 5; i++) run.step();
  const whole = straight(5);
  assert.deepEqual(run.tokens, whole.tokens);
  assert.deepEqual(seen, [0, 1, 2, 3, 4].map((n) => [1, 2, 3, ...whole.tokens.slice(0, n)]));
  run.free();
  whole.free();
});

test("what the model throws reaches the caller as it is, and nothing has moved", () => {
  const thrown = [new RangeError("mine"), "text", 5, undefined, null, { code: "x" }, Symbol("s")];
  let next;
  const run = new Generator(
    (tokens) => {
      if (next) throw next.value;
      return row(tokens);
    },
    [1, 2, 3],
    "42",
    { temperature: 0.8, topK: 40, topP: 0.95 },
  );
  for (const value of thrown) {
    next = { value };
    unchanged(run, () => {
      let caught;
      try {
        run.step();
        assert.fail("did not throw");
      } catch (error) {
        caught = { error };
      }
      assert.ok(Object.is(caught.error, value), `${String(value)} became ${String(caught.error)}`);
    });
    next = undefined;
    run.step();
  }
  const whole = straight(thrown.length);
  assert.deepEqual(run.tokens, whole.tokens);
  run.free();
  whole.free();
});

test("what a model may not return", () => {
  let answer;
  const run = new Generator(() => answer, [], "42", settings);
  const wrong = [
    ["logits_type", Promise.resolve(row([]))],
    ["logits_type", { then() {} }],
    ["logits_type", [0, 1, 2]],
    ["logits_type", undefined],
    ["logits_type", null],
    ["logits_type", "012"],
    ["logits_empty", new Float32Array(0)],
    ["logits_nan", Float32Array.of(NaN)],
    ["logits_all_banned", Float64Array.of(-Infinity)],
  ];
  for (const [code, value] of wrong) {
    answer = value;
    unchanged(run, () => refused(code, () => run.step()));
  }
  answer = row([]);
  run.step();
  run.free();
});

test("stepWith refuses what sampleToken refuses, and nothing has moved", () => {
  const run = straight(3);
  for (const [code, logits] of [
    ["logits_type", [0, 1]],
    ["logits_type", Promise.resolve(row([]))],
    ["logits_type", undefined],
    ["logits_empty", new Float32Array(0)],
    ["logits_nan", Float32Array.of(0, NaN)],
    ["logits_positive_infinity", Float32Array.of(0, Infinity)],
    ["logits_all_banned", Float32Array.of(-Infinity)],
  ]) {
    unchanged(run, () => refused(code, () => run.stepWith(logits)));
  }
  run.free();
  const silent = new Generator(null, [], "1");
  unchanged(silent, () => refused("model_missing", () => silent.step()));
  silent.free();
});

test("a model that calls back in gets a clear error", () => {
  let call = () => {};
  let caught;
  const run = new Generator(
    (tokens) => {
      try {
        call();
      } catch (error) {
        caught = error;
        throw error;
      }
      return row(tokens);
    },
    [1, 2, 3],
    "42",
    settings,
  );
  const frame = Frame.dense(0, row([1, 2, 3]));
  for (const inner of [() => run.step(), () => run.stepWith(row([])), () => run.stepWithFrame(frame)]) {
    call = inner;
    const error = unchanged(run, () => refused("generator_busy", () => run.step()));
    assert.equal(error, caught);
  }
  // Reading is harmless, and says what was before the step.
  call = () => {
    assert.equal(run.position, 0);
    assert.equal(run.state().step, 0);
    assert.equal(run.tokens.length, 0);
    assert.equal(run.seed, "42");
  };
  run.step();
  // A model that catches the error continues.
  call = () => {
    try {
      run.step();
    } catch {}
  };
  run.step();
  call = () => {};
  run.step();
  const whole = straight(3);
  assert.deepEqual(run.tokens, whole.tokens);
  run.free();
  whole.free();
  frame.free();
});

test("a model that frees its generator is refused, and nothing has moved", () => {
  let run;
  run = new Generator(
    (tokens) => {
      run.free();
      return row(tokens);
    },
    [1, 2, 3],
    "42",
    settings,
  );
  unchanged(run, () => refused("generator_busy", () => run.step()));
  run.free();
  const whole = straight(15);
  assert.equal(whole.position, 15);
  whole.free();
});

test("free: twice does no harm, use afterwards is refused, Symbol.dispose is the same", () => {
  for (const end of ["free", Symbol.dispose]) {
    const run = straight(2);
    run[end]();
    refused("freed", () => run.step());
    refused("freed", () => run.state());
    refused("freed", () => run.tokens);
    run[end]();
  }
  const whole = straight(15);
  assert.equal(whole.position, 15);
  whole.free();
});

test("10,000 steps leave memory as it was", async () => {
  const { memory } = await init();
  const burst = () => {
    for (let i = 0; i < 10; i++) {
      const run = new Generator(model, [1, 2, 3], "42", settings);
      for (let n = 0; n < 100; n++) {
        if (n % 3 === 0) {
          run.step();
        } else if (n % 3 === 1) {
          run.stepWith(row(run.tokens));
        } else {
          const frame = Frame.forSettings(n, row(run.tokens), settings);
          const copy = Frame.decode(frame.encode());
          run.stepWithFrame(copy);
          frame.free();
          copy.free();
        }
        try {
          run.stepWith([0]);
        } catch {}
      }
      run.state();
      run.free();
    }
  };
  burst();
  const before = memory.buffer.byteLength;
  for (let i = 0; i < 10; i++) burst();
  assert.equal(memory.buffer.byteLength, before);
});

test("the default export is there in Node, does nothing, as often as one likes", async () => {
  assert.equal(typeof init, "function");
  assert.equal(await init(), await init());
  assert.equal(sampleToken(Float32Array.of(0, 1), { temperature: 0 }, 0), 1);
});
