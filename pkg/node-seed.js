// randomSeed() in Node: version 18 has Web Crypto, but not yet as a global, where the wasm looks for it.
import { webcrypto } from "node:crypto";
import { randomSeed as seedFromGlobal } from "./sampler.js";

export const randomSeed = globalThis.crypto ? seedFromGlobal : () => String(webcrypto.getRandomValues(new BigUint64Array(1))[0]);
