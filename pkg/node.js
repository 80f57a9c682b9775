// The package in Node, and in Deno and Bun, which take Node's entry: ready before the importer's first line runs.
import { webcrypto } from "node:crypto";
import { bytes } from "./embedded.js";
import { ready } from "./options.js";
import { initSync as loadSync, randomSeed as seedFromGlobal } from "./sampler.js";

export * from "./sampler.js";

const { init, initSync } = ready(loadSync({ module: bytes() }));
export { init as default, initSync };

// Node 18 has Web Crypto, but not yet as a global, where the wasm looks for it.
export const randomSeed = globalThis.crypto ? seedFromGlobal : () => String(webcrypto.getRandomValues(new BigUint64Array(1))[0]);
