// TypeScript 5.2 and later, with the library of explicit resource management.
import { Frame, Generator } from "@quillmate/sampler";

{
  using run = new Generator(null, [], "1");
  using frame = Frame.dense(0, new Float32Array(1));
  run.stepWithFrame(frame);
}
