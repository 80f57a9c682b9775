import type { InitInput, InitOutput, SyncInitInput } from "./sampler.cjs";

export * from "./sampler.cjs";

/**
 * Loads the wasm that the caller gives; once, however often it is called, and again after it failed. All entries share one
 * wasm: a library imports this one, and the application that uses it loads the wasm in the way that suits it.
 *
 * Without `module_or_path` it is refused with `wasm_missing`; an option that is not known with `field_unknown`, what is no
 * object of options with `field_type`.
 *
 * @param options `module_or_path`: a compiled module, bytes, a `Response`, or an address to fetch
 */
export default function init(options: { module_or_path: InitInput | PromiseLike<InitInput> }): Promise<InitOutput>;

/** The same at once, from a compiled module or bytes. */
export function initSync(options: { module: SyncInitInput }): InitOutput;
