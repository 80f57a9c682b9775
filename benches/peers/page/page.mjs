// In the page: the package and transformers.js on the same rows, a round asking each of them in turn.
import { env } from "../node_modules/@huggingface/transformers/src/env.js";
import { TemperatureLogitsWarper } from "../node_modules/@huggingface/transformers/src/generation/logits_process.js";
import { LogitsSampler } from "../node_modules/@huggingface/transformers/src/generation/logits_sampler.js";
import { Tensor } from "../node_modules/@huggingface/transformers/src/utils/tensor.js";
import * as quillmate from "../../../pkg/index.js";

const ROUNDS = 24;
const MILLISECONDS = 3000;
const lacks = "no top_p; f32 sums; which of equal logits stays is left open; Math.random, so no seed and no state";

const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1];

/** Where there are no rows of models: a bell of deviation 2, and one id in 97 raised by 9 to 15. */
function made(vocabulary, count) {
  return Array.from({ length: count }, (_, seed) =>
    Float32Array.from({ length: vocabulary }, (_, id) => {
      const even = (stream) => quillmate.uniform(seed, id, stream);
      const bell = (even(20) + even(21) + even(22) + even(23) - 2) * Math.sqrt(3);
      return 2 * bell + (even(24) < 1 / 97 ? 9 + 6 * even(25) : 0);
    }),
  );
}

async function rowsOf(file, vocabulary) {
  const answer = await fetch(`/rows/${file}`);
  if (!answer.ok) return { source: "made", rows: made(vocabulary, 4) };
  const all = new Float32Array(await answer.arrayBuffer());
  const rows = Array.from({ length: all.length / vocabulary }, (_, at) => all.slice(at * vocabulary, (at + 1) * vocabulary));
  return { source: file, rows };
}

function ours(settings) {
  let step = 0;
  return {
    path: "quillmate, wasm",
    repeat: 8,
    prepare: () => {},
    run: (row) => quillmate.sampleToken(row, settings, quillmate.uniform("1", ++step)),
  };
}

/** The same, with the row where the wasm reads it. Writing it there is not counted, as it is not for transformers.js. */
function viaLogitsBuffer(settings, vocabulary) {
  let step = 0;
  return {
    path: "quillmate, wasm, logitsBuffer",
    repeat: 8,
    prepare: (row) => quillmate.logitsBuffer(vocabulary).set(row),
    run: () => quillmate.sampleToken(quillmate.logitsBuffer(vocabulary), settings, quillmate.uniform("1", ++step)),
  };
}

function theirs(settings, vocabulary) {
  const greedy = settings.temperature === 0;
  const sampler = LogitsSampler.getSampler({ do_sample: !greedy, num_beams: 1, num_return_sequences: 1, top_k: settings.topK });
  const warper = greedy ? null : new TemperatureLogitsWarper(settings.temperature);
  const data = new Float32Array(vocabulary);
  return {
    path: "transformers.js",
    lacks,
    repeat: 1,
    // The temperature is applied in place, so the row is written anew each time; that is not counted.
    prepare: (row) => data.set(row),
    run: async () => {
      const logits = new Tensor("float32", data, [1, vocabulary]);
      const [[token]] = await sampler(warper === null ? logits : warper([], logits));
      return Number(token);
    },
  };
}

const cases = [
  ["greedy", { temperature: 0 }, true],
  ["k 50, p .95", { temperature: 0.8, topK: 50, topP: 0.95 }, false],
  ["k 50", { temperature: 0.8, topK: 50 }, true],
  ["p .9", { temperature: 0.8, topP: 0.9 }, false],
  ["T alone", { temperature: 0.8, topK: 0 }, true],
];

async function measure(contenders, rows) {
  const times = contenders.map(() => []);
  const start = performance.now();
  for (let round = 0; round < ROUNDS || (performance.now() - start < MILLISECONDS && round < 3000); round++) {
    const row = rows[round % rows.length];
    for (const [at, contender] of contenders.entries()) {
      contender.prepare(row);
      const begin = performance.now();
      for (let repeat = 0; repeat < contender.repeat; repeat++) {
        const answer = contender.run(row);
        if (answer instanceof Promise) await answer;
      }
      times[at].push(((performance.now() - begin) * 1000) / contender.repeat);
    }
  }
  return times.map(median);
}

async function all(say) {
  env.backends.onnx.wasm.wasmPaths = "/onnx/";
  env.backends.onnx.wasm.numThreads = 1;
  await quillmate.default();
  const results = [];
  for (const [file, vocabulary] of Object.entries({
    "smollm2_49152.15rows.f32": 49152,
    "logits_128256.8rows.f32": 128256,
    "gemma3_262144.6rows.f32": 262144,
  })) {
    const { source, rows } = await rowsOf(file, vocabulary);
    for (const [setting, settings, both] of cases) {
      const contenders = [ours(settings)];
      if ("logitsBuffer" in quillmate) contenders.push(viaLogitsBuffer(settings, vocabulary));
      if (both) contenders.push(theirs(settings, vocabulary));
      if (setting === "greedy") {
        for (const row of rows) {
          const tokens = [];
          for (const contender of contenders) {
            contender.prepare(row);
            tokens.push(await contender.run(row));
          }
          if (tokens.some((token) => row[token] !== row[tokens[0]])) throw new Error(`greedy: ${tokens} of ${source}`);
        }
      }
      const medians = await measure(contenders, rows);
      for (const [at, { path, lacks }] of contenders.entries()) {
        const one = { where: "Chromium", setting, V: vocabulary, rows: source, path, median_us: medians[at], lacks: lacks ?? "" };
        results.push(one);
        say(
          `${setting.padEnd(12)} ${String(vocabulary).padStart(7)} ${path.padEnd(30)} ${medians[at].toFixed(1).padStart(9)} µs`,
        );
      }
    }
  }
  return results;
}

globalThis.all = () => all((line) => console.log(line));
