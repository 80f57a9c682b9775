// The default entry: a browser, a worker, a bundler's output. The wasm is embedded, because tools that move the script would
// break the URL of a separate file.
import { bytes } from "./embedded.js";
import { compiled, fetched, optionsOf } from "./options.js";
import load, { initSync as loadSync } from "./sampler.js";

export * from "./sampler.js";

// Only the call that loads reads the getters, so nothing is unpacked or fetched twice.
export default async function init(options) {
  const { module_or_path: given } = optionsOf("init", options, "module_or_path");
  return load({
    get module_or_path() {
      return given === undefined ? bytes() : fetched(given);
    },
  });
}

export function initSync(options) {
  const { module: given } = optionsOf("initSync", options, "module");
  return loadSync({
    get module() {
      return given === undefined ? bytes() : compiled(given);
    },
  });
}
