// The package in the edge runtime of Next.js and Vercel: as in workerd, with their way to ask for a compiled module.
import { ready } from "./options.js";
import { initSync as loadSync } from "./sampler.js";
import module from "./sampler_bg.wasm?module";

export * from "./sampler.js";

const { init, initSync } = ready(loadSync({ module }));
export { init as default, initSync };
