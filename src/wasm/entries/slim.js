// The package without its wasm, which the caller passes as a compiled module, bytes, a response or a URL.
import { compiled, fetched, optionsOf } from "./options.js";
import load, { initSync as loadSync, SamplerError } from "./sampler.js";

export * from "./sampler.js";

const given = (name, options, option) => {
  const value = optionsOf(name, options, option)[option];
  if (value !== undefined) return value;
  throw new SamplerError("wasm_missing", `${name} of @quillmate/sampler/slim needs { ${option} }: this entry carries no wasm of its own`);
};

// Only the call that loads reads the getters, so nothing is fetched twice.
export default async function init(options) {
  const wasm = given("init", options, "module_or_path");
  return load({
    get module_or_path() {
      return fetched(wasm);
    },
  });
}

export function initSync(options) {
  const wasm = given("initSync", options, "module");
  return loadSync({
    get module() {
      return compiled(wasm);
    },
  });
}
