// Both entries and the wasm file, with no library but ES2022: `init` knows what it takes, and one API is behind both.
import init, { type Frame as FrameOfDefault, type InitInput } from "@quillmate/sampler";
import initSlim, { Frame, initSync } from "@quillmate/sampler/slim";
import wasm from "@quillmate/sampler/sampler_bg.wasm";

const bytes: InitInput = new Uint8Array(8);
await init();
await init({});
await init({ module_or_path: "/sampler_bg.wasm" });
await init({ module_or_path: Promise.resolve(bytes) });
await initSlim({ module_or_path: bytes });
await initSlim({ module_or_path: wasm });
initSync({ module: wasm });
// @ts-expect-error its name is module_or_path
await init({ moduleOrPath: "/sampler_bg.wasm" });
// @ts-expect-error an object of options
await init("/sampler_bg.wasm");
// @ts-expect-error the slim entry has no wasm of its own
await initSlim();
// @ts-expect-error the slim entry has no wasm of its own
await initSlim({});

const same: FrameOfDefault = Frame.dense(0, new Float32Array(1));
same[Symbol.dispose]();
