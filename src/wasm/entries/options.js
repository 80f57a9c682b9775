// Shared by the entries. Options are read strictly, because a misspelt one would otherwise be ignored silently.
import { SamplerError } from "./sampler.js";

/** By its tag, because a value may come from another realm (a frame, a worker, a test's sandbox). */
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);

/** The options of `init` or `initSync`, which have one option each. */
export function optionsOf(name, options = {}, option) {
  // A URL, a Response, bytes, a module and a promise have other tags.
  if (tag(options) !== "Object") throw new SamplerError("field_type", `${name} takes an object: ${name}({ ${option}: … })`);
  for (const key of Object.keys(options)) {
    if (key !== option) throw new SamplerError("field_unknown", `${name} has no option ${key}, only ${option}`);
  }
  return options;
}

/** A module, or bytes that every engine compiles: none compiles shared ones, and not all accept a DataView. */
function isWasm(value) {
  if (ArrayBuffer.isView(value)) return tag(value) !== "DataView" && tag(value.buffer) === "ArrayBuffer";
  return ["ArrayBuffer", "WebAssembly.Module"].includes(tag(value));
}

/** The wasm given to `initSync`: compiled, or bytes. */
export function compiled(given) {
  if (isWasm(given)) return given;
  throw new SamplerError("field_type", `module must be a WebAssembly.Module or bytes, but is ${tag(given)}`);
}

/** The wasm given to `init`: the same, a response, where to fetch it, or a promise of these. */
export async function fetched(given) {
  let source = await given;
  if (typeof source === "string" || ["Request", "URL"].includes(tag(source))) {
    const answer = fetch(source);
    source = await answer.catch((cause) => {
      throw Object.assign(new SamplerError("wasm_unavailable", `the wasm could not be fetched: ${cause.message}`), { cause });
    });
  }
  if (isWasm(source)) return source;
  if (tag(source) !== "Response") {
    throw new SamplerError("field_type", `module_or_path must be a WebAssembly.Module, bytes, a Response or an address, but is ${tag(source)}`);
  }
  if (source.ok) return source;
  throw new SamplerError("wasm_unavailable", `the wasm could not be fetched: ${source.status} ${source.statusText} ${source.url}`.trim());
}

/** `init` and `initSync` where the wasm is already loaded: they check their options and do nothing. */
export function ready(wasm) {
  return {
    async init(options) {
      optionsOf("init", options, "module_or_path");
      return wasm;
    },
    initSync(options) {
      optionsOf("initSync", options, "module");
      return wasm;
    },
  };
}
