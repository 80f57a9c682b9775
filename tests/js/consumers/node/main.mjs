// A Node program: no await is needed before the first call, and awaiting init() does no harm.
import init, { sampleToken } from "@quillmate/sampler";

const { logits, settings, u } = JSON.parse(process.argv[2]);
const first = sampleToken(Float64Array.from(logits), settings, u);
await init();
const second = sampleToken(Float64Array.from(logits), settings, u);
console.log(JSON.stringify({ first, second }));
