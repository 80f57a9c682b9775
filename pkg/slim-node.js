// The package without its wasm, in Node.
export * from "./slim.js";
export { default } from "./slim.js";
export { randomSeed } from "./node-seed.js";
