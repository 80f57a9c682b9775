// vector-count KIND: how many cases of a kind the vectors hold.
import { readFileSync } from "node:fs";

const kind = process.argv[2];
const elsewhere = {
  derive_seed: ["derive_seed", "derive_seed"],
  exp_hard: ["exp_hard", "exp"],
  processor: ["processors", "processors"],
  processed_run: ["processors", "runs"],
  golden: ["golden_run", "runs"],
  greedy: ["greedy", "greedy"],
  mosaic_greedy: ["greedy", "mosaic_greedy"],
  number: ["numbers", "numbers"],
  frame: ["frames", "frames"],
  refused_frame: ["frames", "refused"],
  mosaic: ["contract", "mosaic-splitmix64-top-k-top-p-v1"],
};
const [file, section] = elsewhere[kind] ?? ["contract", kind];
console.log(JSON.parse(readFileSync(new URL(`../tests/vectors/${file}.json`, import.meta.url), "utf8"))[section].length);
