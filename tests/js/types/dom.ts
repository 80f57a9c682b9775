// With the types of a browser.
import init, { distribution, Frame, Generator, logitsBuffer } from "@quillmate/sampler";

await init({ module_or_path: new URL("https://example.org/sampler_bg.wasm") });
await init({ module_or_path: new Request("/sampler_bg.wasm") });
await init({ module_or_path: fetch("/sampler_bg.wasm") });
await init({ module_or_path: WebAssembly.compileStreaming(fetch("/sampler_bg.wasm")) });
const memory: WebAssembly.Memory = (await init()).memory;
memory.buffer.byteLength.toFixed();

// What is returned is in memory of its own, as Blob and fetch want it.
const row = new Float32Array(2);
const frame = Frame.dense(0, row);
const run = new Generator(() => row, [], "1");
const { ids, probabilities } = distribution(row, {});
export const blob = new Blob([frame.encode(), frame.logits({}), run.tokens, run.prompt, ids, probabilities, logitsBuffer(2)]);
await fetch("/frames", { method: "POST", body: frame.encode() });
