// The package in Node: the files of the browser, with the wasm read from disk before the importer's first line runs.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { initSync } from "./sampler.js";

const wasm = initSync({ module: readFileSync(join(dirname(fileURLToPath(import.meta.url)), "sampler_bg.wasm")) });

export * from "./sampler.js";

/** Nothing is left to do: it is here so that `await init()` can be written once for Node and browsers. */
export default async function init() {
  return wasm;
}
