// What every consumer writes: the lines of the package's README.
import init, { Frame, Generator, randomSeed, sampleToken } from "@quillmate/sampler";
import { report } from "./report.js";

export async function run() {
  await init();
  return report({ Frame, Generator, randomSeed, sampleToken });
}
