import type { InitInput, InitOutput, SyncInitInput } from "./sampler.cjs";

export * from "./sampler.cjs";

/**
 * Loads the wasm; once, however often it is called, and again after it failed. In Node, Deno, Bun, workerd and Next's edge
 * runtime it is loaded before the importer's first line runs, and this does nothing.
 *
 * An option that is not known is refused with `field_unknown`, what is no object of options with `field_type`.
 *
 * @param options `module_or_path`: the wasm to load in place of the one this entry carries
 */
export default function init(options?: {
  module_or_path?: InitInput | PromiseLike<InitInput> | undefined;
}): Promise<InitOutput>;

/** The same at once. Browsers may refuse to compile so much on a page's main thread; workers do not. */
export function initSync(options?: { module?: SyncInitInput | undefined }): InitOutput;
