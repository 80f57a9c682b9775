// sampleToken and uniform: what is refused, with which code, and that it is a real Error.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Frame, Generator, sampleToken } from "@quillmate/sampler";
import { refused } from "./support.mjs";

const row = Float32Array.of(0, 1, 2);

test("settings left out or undefined take their defaults", () => {
  for (const u of [0, 0.3, 0.6, 0.99]) {
    const token = sampleToken(row, { temperature: 1, topK: 0, topP: 1 }, u);
    assert.equal(sampleToken(row, undefined, u), token);
    assert.equal(sampleToken(row, {}, u), token);
    assert.equal(sampleToken(row, { temperature: undefined, topK: undefined, topP: undefined }, u), token);
  }
});

test("settings out of range", () => {
  for (const temperature of [NaN, Infinity, -Infinity, -1, -Number.MIN_VALUE]) {
    const error = refused("temperature_out_of_range", () => sampleToken(row, { temperature }, 0));
    assert.ok(Object.is(error.value, temperature));
  }
  for (const topK of [-1, 1.5, NaN, Infinity, 2 ** 32]) {
    const error = refused("top_k_out_of_range", () => sampleToken(row, { topK }, 0));
    assert.ok(Object.is(error.value, topK));
  }
  for (const topP of [-0.1, 1.1, NaN, Infinity]) {
    const error = refused("top_p_out_of_range", () => sampleToken(row, { topP }, 0));
    assert.ok(Object.is(error.value, topP));
  }
  // Greedy looks at neither (vectors/greedy.json); settings that are stored are checked all the same.
  refused("top_p_out_of_range", () => new Generator(null, [], 1, { temperature: 0, topP: 2 }));
  refused("top_k_out_of_range", () => Frame.forSettings(0, row, { temperature: 0, topK: -1 }));
  assert.equal(sampleToken(row, { temperature: 0, get topP() { throw new RangeError("looked at"); } }), 2);
  assert.equal(sampleToken(row, { temperature: -0, topK: 2 ** 32 - 1, topP: 0 }, 0), 2);
});

test("settings of a wrong type or name are refused, never ignored", () => {
  const codes = { temperature: "temperature_out_of_range", topK: "top_k_out_of_range", topP: "top_p_out_of_range" };
  for (const value of ["1", "", null, true, {}, [], 1n, Symbol("1"), () => 1, new Number(1)]) {
    for (const [name, code] of Object.entries(codes)) {
      assert.equal(refused(code, () => sampleToken(row, { [name]: value }, 0)).value, value);
    }
  }
  for (const name of ["top_K", "topk", "top-k", "temp", "seed"]) {
    refused("field_unknown", () => sampleToken(row, { [name]: 1 }, 0));
  }
  for (const settings of [null, 1, "x", true, [], 1n, Symbol("s")]) {
    refused("settings_type", () => sampleToken(row, settings, 0));
  }
});

test("logits", () => {
  for (const kind of [Float32Array, Float64Array]) {
    refused("logits_empty", () => sampleToken(kind.of(), {}, 0));
    assert.equal(refused("logits_nan", () => sampleToken(kind.of(0, -Infinity, NaN, Infinity), {}, 0)).index, 2);
    assert.equal(refused("logits_positive_infinity", () => sampleToken(kind.of(0, Infinity, NaN), {}, 0)).index, 1);
    refused("logits_all_banned", () => sampleToken(kind.of(-Infinity, -Infinity), {}, 0));
    // Greedy looks at them too.
    refused("logits_nan", () => sampleToken(kind.of(0, NaN), { temperature: 0 }, 0));
  }
});

test("a plain array is refused rather than rounded, and so is every other kind", () => {
  const others = [[0, 1, 2], Int32Array.of(0, 1), Uint8Array.of(1), new ArrayBuffer(8), new DataView(new ArrayBuffer(8))];
  // Neither is what only says it is one.
  others.push({ [Symbol.toStringTag]: "Float32Array", length: 3, 0: 1, 1: 2, 2: 3 });
  for (const logits of [...others, null, undefined, "012", 3, {}, { length: 1, 0: 1 }, new Set([1])]) {
    refused("logits_type", () => sampleToken(logits, {}, 0));
  }
});

test("a part of a larger buffer is the part alone", () => {
  const buffer = Float32Array.of(9, 0, 1, 2, 9).buffer;
  assert.equal(sampleToken(new Float32Array(buffer, 4, 3), { temperature: 0 }, 0), 2);
  assert.equal(sampleToken(row.subarray(0, 2), { temperature: 0 }, 0), 1);
});

test("u", () => {
  for (const u of [1, -0.1, NaN, Infinity, -Number.MIN_VALUE]) {
    const error = refused("uniform_out_of_range", () => sampleToken(row, {}, u));
    assert.ok(Object.is(error.value, u));
  }
  for (const u of [undefined, null, "0", {}, 0n, true]) refused("uniform_out_of_range", () => sampleToken(row, {}, u));
  assert.equal(sampleToken(row, {}, -0), 0);
  // Not looked at by greedy.
  for (const u of [1, NaN, undefined, "0", Symbol("u")]) assert.equal(sampleToken(row, { temperature: 0 }, u), 2);
});

test("a refusal survives its first reading: message, stack, name, code", () => {
  const error = refused("top_k_out_of_range", () => sampleToken(row, { topK: -1 }, 0));
  assert.equal(String(error), `SamplerError: ${error.message}`);
  assert.equal(Object.prototype.toString.call(error), "[object Error]");
  assert.ok(!("index" in error) || error.index === undefined);
  assert.equal(structuredClone(error).message, error.message);
});
