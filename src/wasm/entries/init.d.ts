
/** A typed array over an `ArrayBuffer`, which `Blob` and `fetch` ask for from TypeScript 5.7 on; before, any typed array. */
type Own<View extends { slice(): unknown }> = ReturnType<View["slice"]>;

declare global {
  // In the library of TypeScript 5.2 and later, if the project has it.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}

/** What the platform's own types call by this name; nothing where the project has none of them (`lib: ["ES2022"]`). */
type Platform<Name extends string> = typeof globalThis extends { [Key in Name]: { prototype: infer Instance } } ? Instance : never;
type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Instance } } } ? Instance : never;
type WasmMemory = typeof globalThis extends { WebAssembly: { Memory: { prototype: infer Instance } } } ? Instance : unknown;

/** The bytes of `sampler_bg.wasm`, or what it was compiled to. */
export type SyncInitInput = ArrayBuffer | Uint8Array | WasmModule;

/** The same, or where to fetch it. */
export type InitInput = SyncInitInput | string | Platform<"URL"> | Platform<"Request"> | Platform<"Response">;

/** The loaded wasm. Its other exports are the package's own affair. */
export interface InitOutput {
  /** What all objects of this package live in. It grows, and never shrinks. */
  readonly memory: WasmMemory;
}

// Without this line every type of this file would be exported.
export {};
