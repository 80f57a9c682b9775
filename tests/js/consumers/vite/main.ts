import init, { sampleToken } from "@quillmate/sampler";

declare global {
  interface Window {
    sample?: (logits: number[], settings: object, u: number) => number;
  }
}

await init();
window.sample = (logits, settings, u) => sampleToken(Float64Array.from(logits), settings, u);
