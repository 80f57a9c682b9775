// Speculation: the vectors, and text that does not change when it is switched on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { distribution, draw, Generator, sampleToken, speculativeStep, uniform } from "@quillmate/sampler";
import { contract, numbers, refused, row, settingsOf, toBits } from "./support.mjs";

test("speculative vectors", () => {
  let ran = 0;
  for (const [at, c] of contract.speculative.entries()) {
    const found = speculativeStep(numbers(c.p), numbers(c.q), c.draft, c.u_accept, c.u_resample);
    assert.deepEqual(found, { token: c.token, accepted: c.accepted }, `case ${at}`);
    ran += 1;
  }
  console.log(`ran ${ran} speculative cases`);
  assert.equal(ran, contract.speculative.length);
});

test("distribution gives the kept ids and the bits of their probabilities", () => {
  let ran = 0;
  for (const c of contract.sample) {
    const { ids, probabilities } = distribution(numbers(c.logits), settingsOf(c));
    assert.ok(ids instanceof Uint32Array && probabilities instanceof Float64Array);
    assert.deepEqual([...ids], c.kept, c.name);
    if (c.probability_bits) assert.deepEqual(Array.from(probabilities, toBits), c.probability_bits, c.name);
    ran += 1;
  }
  assert.equal(ran, contract.sample.length);
});

test("speculativeStep refuses what is no distribution", () => {
  const p = Float64Array.of(0.5, 0.5);
  refused("probabilities_type", () => speculativeStep([0.5, 0.5], p, 0, 0, 0));
  refused("probabilities_type", () => speculativeStep(p, Float32Array.of(0.5, 0.5), 0, 0, 0));
  refused("distribution_lengths_differ", () => speculativeStep(p, Float64Array.of(1), 0, 0, 0));
  assert.equal(refused("distribution_probability", () => speculativeStep(p, Float64Array.of(1.5, -0.5), 0, 0, 0)).index, 1);
  refused("distribution_sum", () => speculativeStep(Float64Array.of(0.5, 0.6), p, 0, 0, 0));
  refused("draft_token_out_of_range", () => speculativeStep(p, p, 2, 0, 0));
  refused("token_out_of_range", () => speculativeStep(p, p, -1, 0, 0));
  refused("uniform_out_of_range", () => speculativeStep(p, p, 0, 1, 0));
  refused("uniform_out_of_range", () => speculativeStep(p, p, 0, 0, "0.5"));
});

const settings = { temperature: 0.9, topK: 40, topP: 0.95 };
const fresh = () => new Generator(null, [1, 2], 42, settings);
const rowsFor = (generator, drafts) => {
  const context = [...generator.prompt, ...generator.tokens];
  return [row(context), ...drafts.map((_, at) => row([...context, ...drafts.slice(0, at + 1)]))];
};
const plain = (steps) => {
  const run = fresh();
  for (let at = 0; at < steps; at++) run.stepWith(row([...run.prompt, ...run.tokens]));
  return run.state();
};

test("drafter-invariant: whatever is drafted, the text is the text without speculation", () => {
  const expected = plain(60).tokens;
  const drafters = {
    none: () => [],
    good: (at) => expected.slice(at, at + 4),
    bad: (at) => expected.slice(at, at + 4).map((token) => token ^ 1),
    "good at first": (at) => [...expected.slice(at, at + 2), 63, 63],
    "beyond the vocabulary": () => [4294967295, 0],
    noise: (at) => Array.from({ length: at % 5 }, (_, i) => Number(draw(9, at * 5 + i) % 64n)),
  };
  for (const [name, drafter] of Object.entries(drafters)) {
    const run = fresh();
    let accepted = 0;
    while (run.position < 50) {
      const drafts = drafter(run.position);
      const chain = run.stepWithDrafts(rowsFor(run, drafts), drafts);
      assert.equal(chain.tokens.length, chain.accepted + 1);
      accepted += chain.accepted;
    }
    assert.deepEqual([...run.tokens], expected.slice(0, run.position), name);
    if (name === "good") assert.equal(accepted, 40);
    if (name === "bad") assert.equal(accepted, 0);
  }
});

test("p/q: each position draws from its own streams", () => {
  const run = fresh();
  for (let at = 0; at < 3; at++) run.stepWith(row([...run.prompt, ...run.tokens]));
  const context = [...run.prompt, ...run.tokens];
  const drafts = [];
  for (let at = 0; at < 3; at++) {
    const logits = row([...context, ...drafts.map((d) => d.token)]).map((x) => x / 2);
    drafts.push({ token: sampleToken(logits, settings, uniform(42, 3 + at, 3)), ...distribution(logits, settings) });
  }
  const rows = rowsFor(run, drafts.map((d) => d.token));
  const dense = ({ ids, probabilities }) => {
    const all = new Float64Array(64);
    ids.forEach((id, at) => (all[id] = probabilities[at]));
    return all;
  };
  const expected = [];
  for (let at = 0; at <= 3; at++) {
    if (at === 3) {
      expected.push(sampleToken(rows[at], settings, uniform(42, 3 + at, 0)));
      break;
    }
    const one = speculativeStep(dense(distribution(rows[at], settings)), dense(drafts[at]), drafts[at].token, uniform(42, 3 + at, 1), uniform(42, 3 + at, 2));
    expected.push(one.token);
    if (!one.accepted) break;
  }
  const resumed = Generator.fromState(null, JSON.parse(JSON.stringify(run.state())));
  assert.deepEqual(run.stepSpeculative(rows, drafts), { tokens: expected, accepted: expected.length - 1 });
  assert.deepEqual(resumed.stepSpeculative(rows, drafts).tokens, expected);
});

test("a refused chain costs nothing", () => {
  const run = fresh();
  const before = run.state();
  const drafts = plain(2).tokens;
  const rows = rowsFor(run, drafts);
  refused("chain_rows", () => run.stepWithDrafts(rows.slice(1), drafts));
  const bad = rows.map((r) => r.slice());
  bad[1][7] = NaN;
  const error = refused("logits_nan", () => run.stepWithDrafts(bad, drafts));
  assert.deepEqual([error.row, error.index], [1, 7]);
  refused("tokens_type", () => run.stepWithDrafts(rows, "12"));
  refused("rows_type", () => run.stepWithDrafts(rows[0], drafts));
  refused("drafts_type", () => run.stepSpeculative(rows, [1, 2]));
  const draft = { token: 3, ids: [3, 9], probabilities: Float64Array.of(0.5, 0.5) };
  refused("distribution_ids", () => run.stepSpeculative(rows.slice(1), [{ ...draft, ids: [9, 3] }]));
  refused("distribution_vocabulary", () => run.stepSpeculative(rows.slice(1), [{ ...draft, ids: [3, 99] }]));
  refused("distribution_sum", () => run.stepSpeculative(rows.slice(1), [{ ...draft, probabilities: Float64Array.of(0.5, 0.4) }]));
  assert.deepEqual(run.state(), before);
});
