// What every consumer reports, as plain JSON. It compares nothing: the tests do, with the vectors they have read themselves.
import { cases } from "./cases.js";

export function report({ Frame, Generator, randomSeed, sampleToken }) {
  const row = new Float32Array([0.5, 2, 1.25, -1]);
  const frame = Frame.dense(0, row);
  const decoded = Frame.decode(frame.encode());
  const generator = new Generator(() => row, [1, 2], "42", { temperature: 0.8 });
  const thrown = (call) => {
    try {
      return { returned: String(call()) };
    } catch (error) {
      return { error: error instanceof Error, name: error.name, code: error.code };
    }
  };
  const answer = {
    // Every draw of every case of tests/vectors/contract.json.
    tokens: cases.map(({ logits, settings, draws }) => draws.map((u) => sampleToken(Float64Array.from(logits), settings, u))),
    // Objects, text in both directions, a callback, and a refusal.
    frame: [...decoded.logits({ topK: 0 })],
    state: JSON.parse(JSON.stringify((generator.step(), generator.state()))),
    refused: thrown(() => sampleToken(row, { temperature: -1 }, 0.5)),
    malformed: thrown(() => new Generator(null, [], "é", {})),
    seeds: [randomSeed(), randomSeed()],
  };
  for (const object of [frame, decoded, generator]) object.free();
  return answer;
}
