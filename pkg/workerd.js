// The package in Cloudflare's workerd, which compiles no bytes: the wasm comes as a compiled module, and is ready at once.
import { ready } from "./options.js";
import { initSync as loadSync } from "./sampler.js";
import module from "./sampler_bg.wasm";

export * from "./sampler.js";

const { init, initSync } = ready(loadSync({ module }));
export { init as default, initSync };
