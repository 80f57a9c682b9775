// The older contract: its recorded runs replay.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Generator, loadState, mosaicDecision, mosaicStep, uniform } from "@quillmate/sampler";
import { contract, numbers, refused } from "./support.mjs";

test("mosaic vectors", () => {
  let ran = 0;
  for (const [at, c] of contract["mosaic-splitmix64-top-k-top-p-v1"].entries()) {
    const strategy = { temperature: c.temperature, topK: c.top_k, topP: c.top_p };
    const decisions = c.tokens.map((_, index) => mosaicDecision(numbers(c.logits), strategy, c.seed, index));
    assert.deepEqual(decisions.map((d) => d.token_id), c.tokens, `case ${at}`);
    decisions.forEach((d, index) => {
      assert.equal(d.candidate_count, c.candidates.length);
      assert.equal(d.random_draw, uniform(c.seed, index));
      assert.equal(d.draw_index, index);
      assert.equal(d.algorithm_version, "mosaic-splitmix64-top-k-top-p-v1");
    });
    ran += 1;
  }
  console.log(`ran ${ran} mosaic cases`);
  assert.ok(ran > 0);
});

test("greedy takes the lowest id on ties and has no draw", () => {
  assert.deepEqual(mosaicDecision(Float64Array.of(1, 3, 3), "greedy", 42, 0), {
    token_id: 1,
    candidate_count: 3,
    selected_probability: null,
    random_draw: null,
    draw_index: null,
    algorithm_version: "mosaic-splitmix64-top-k-top-p-v1",
  });
});

test("its settings are strict and its logits finite", () => {
  const logits = Float64Array.of(0, 1, 2);
  const good = { temperature: 0.8, topK: 3, topP: 0.9 };
  const decide = (strategy, row = logits) => mosaicDecision(row, strategy, 42, 0);
  refused("temperature_out_of_range", () => decide({ ...good, temperature: 0 }));
  refused("top_k_out_of_range", () => decide({ ...good, topK: 0 }));
  refused("top_k_out_of_range", () => decide({ ...good, topK: 1.5 }));
  refused("top_k_above_vocabulary", () => decide({ ...good, topK: 4 }));
  refused("top_p_out_of_range", () => decide({ ...good, topP: 0 }));
  refused("field_type", () => decide({ temperature: 0.8, topK: 3 }));
  refused("field_unknown", () => decide({ ...good, minP: 0.1 }));
  refused("strategy_type", () => decide("random"));
  assert.equal(refused("logits_not_finite", () => decide(good, Float64Array.of(0, -Infinity, 2))).index, 1);
  assert.equal(refused("logits_not_finite", () => decide("greedy", Float64Array.of(NaN))).index, 0);
  refused("logits_empty", () => decide("greedy", new Float64Array()));
});

const published = (cut) => ({
  contract: "mosaic-splitmix64-top-k-top-p-v1",
  format: 1,
  seed: "42",
  draws: cut,
  prompt: [1, 2],
  tokens: [3, 3, 3, 3, 3, 2, 3, 2].slice(0, cut),
  strategy: { kind: "sample", temperature: 0.8, top_k: 3, top_p: 0.9 },
});

test("the published run resumes from its stored state at every cut", () => {
  for (let cut = 0; cut <= 8; cut++) {
    let state = loadState(JSON.parse(JSON.stringify(published(cut))));
    assert.deepEqual(state, published(cut));
    for (let n = cut; n < 8; n++) {
      const next = mosaicStep(state, Float32Array.of(0, 1, 2, 3));
      assert.equal(next.decision.draw_index, n);
      assert.equal(next.decision.token_id, next.state.tokens.at(-1));
      state = next.state;
    }
    assert.deepEqual(state, published(8));
  }
});

test("states of both contracts load through one door, and an unknown name is refused", () => {
  const run = new Generator(() => Float32Array.of(0, 1), [1], "42");
  run.step();
  assert.deepEqual(loadState(run.state()), run.state());
  const greedy = { ...published(0), tokens: [1], strategy: { kind: "greedy" } };
  assert.deepEqual(loadState(greedy), greedy);
  for (const contract of ["mosaic-splitmix64-top-k-top-p-v2", "quillmate-v2", ""]) {
    refused("contract_unknown", () => loadState({ ...published(1), contract }));
  }
  refused("contract_unknown", () => Generator.fromState(null, published(1)));
  refused("contract_unknown", () => mosaicStep(run.state(), Float32Array.of(0, 1)));
  refused("field_missing", () => loadState({}));
  refused("draws_mismatch", () => loadState({ ...published(3), draws: 2 }));
  refused("top_k_out_of_range", () => loadState({ ...published(3), strategy: { ...published(3).strategy, top_k: 0 } }));
  for (const bad of [null, undefined, 1, "x", []]) refused("field_type", () => loadState(bad));
  refused("logits_not_finite", () => mosaicStep(published(1), Float32Array.of(NaN)));
  run.free();
});
