// The package wherever nothing better is known: a browser, a worker, a bundler's output. It carries the wasm within, because
// an address beside the script is lost by every tool that moves the script.
import { bytes } from "./embedded.js";
import { compiled, fetched, optionsOf } from "./options.js";
import load, { initSync as loadSync } from "./sampler.js";

export * from "./sampler.js";

// The getters are read by the call that loads, and by no later one: nothing is unpacked or fetched twice.
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
