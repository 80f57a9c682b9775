// The package in Node, and in Deno and Bun, which take Node's entry: ready before the importer's first line runs.
import { bytes } from "./embedded.js";
import { ready } from "./options.js";
import { initSync as loadSync } from "./sampler.js";

export * from "./sampler.js";
export { randomSeed } from "./node-seed.js";

const { init, initSync } = ready(loadSync({ module: bytes() }));
export { init as default, initSync };
