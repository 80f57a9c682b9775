// What the tests share: the vectors, floats by their bits, and a model of a few lines.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Generator } from "@quillmate/sampler";

export const contract = JSON.parse(readFileSync(new URL("../vectors/contract.json", import.meta.url), "utf8"));
export const derivedSeeds = JSON.parse(readFileSync(new URL("../vectors/derive_seed.json", import.meta.url), "utf8"));
export const writtenNumbers = JSON.parse(readFileSync(new URL("../vectors/numbers.json", import.meta.url), "utf8"));
export const frames = JSON.parse(readFileSync(new URL("../vectors/frames.json", import.meta.url), "utf8"));
export const greedy = JSON.parse(readFileSync(new URL("../vectors/greedy.json", import.meta.url), "utf8"));
export const hardExp = JSON.parse(readFileSync(new URL("../vectors/exp_hard.json", import.meta.url), "utf8"));

const view = new DataView(new ArrayBuffer(8));
/** @param {string} bits "0x" and 16 hex digits */
export function fromBits(bits) {
  view.setBigUint64(0, BigInt(bits));
  return view.getFloat64(0);
}
export function toBits(x) {
  view.setFloat64(0, x);
  return `0x${view.getBigUint64(0).toString(16).padStart(16, "0")}`;
}
/** The next double towards 0, of a positive one. */
export function below(x) {
  view.setFloat64(0, x);
  view.setBigUint64(0, view.getBigUint64(0) - 1n);
  return view.getFloat64(0);
}
/** The largest uniform number there is. */
export const LARGEST_U = 1 - 2 ** -53;

/** Logits of a vector, where -Infinity is written as a string. */
export const numbers = (logits) => Float64Array.from(logits, Number);
/** The same as f32, if every value survives it. */
export function asF32(logits) {
  const narrow = Float32Array.from(logits);
  return narrow.every((x, i) => Object.is(x, logits[i])) ? narrow : null;
}
export const settingsOf = ({ temperature, top_k, top_p }) => ({ temperature, topK: top_k, topP: top_p });

/** Rows that depend on the whole context: one wrong token and everything after it differs. */
export function row(tokens, vocab = 64) {
  let h = 0x811c9dc5 ^ tokens.length;
  for (const token of tokens) h = Math.imul(h ^ token, 0x01000193) >>> 0;
  const logits = new Float32Array(vocab);
  for (let i = 0; i < vocab; i++) {
    h = (Math.imul(h, 1664525) + 1013904223) >>> 0;
    logits[i] = h / 2 ** 29 - 4;
  }
  return logits;
}
export const model = (tokens) => row(tokens);

export const straight = (steps, { prompt = [1, 2, 3], seed = "42", settings = { temperature: 0.8, topK: 40, topP: 0.95 } } = {}) => {
  const run = new Generator(model, prompt, seed, settings);
  for (let i = 0; i < steps; i++) run.step();
  return run;
};

/** Runs `call`, which must throw a SamplerError with this code, and gives the error. */
export function refused(code, call) {
  let error;
  try {
    const value = call();
    assert.fail(`expected ${code}, got ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  } catch (thrown) {
    error = thrown;
  }
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(error instanceof Error, `${code}: what was thrown is no Error: ${String(error)}`);
  assert.equal(error.code, code, `${code}: ${error.stack}`);
  assert.equal(error.name, "SamplerError");
  assert.ok(error.message.length > 0, `${code}: no message`);
  assert.equal(typeof error.stack, "string");
  return error;
}
