/**
 * A compiled module, which is what workerd and Next's edge runtime (as `sampler_bg.wasm?module`) give for this import.
 * Elsewhere ask for the file's address: `sampler_bg.wasm?url` in Vite, `new URL("@quillmate/sampler/sampler_bg.wasm", import.meta.url)`
 * in webpack and Rspack.
 */
declare const module: typeof globalThis extends { WebAssembly: { Module: { prototype: infer Instance } } } ? Instance : never;
export default module;
