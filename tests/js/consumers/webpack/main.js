import init, { sampleToken } from "@quillmate/sampler";

init().then(() => {
  window.sample = (logits, settings, u) => sampleToken(Float64Array.from(logits), settings, u);
});
