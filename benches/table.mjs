// table.mjs [--check]: the tables of docs/speed.md and the README's chart, docs/speed.svg, from benches/results.json. With
// --check nothing is written: a file that says something else fails.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chart } from "./chart.mjs";

const root = join(import.meta.dirname, "..");
const read = (file) => readFileSync(join(root, file), "utf8");
const measured = JSON.parse(read("benches/results.json"));
const { machine, date, commit, load, results, differential } = measured;

const settings = ["greedy", "k 50, p .95", "p .9", "T alone"];
const vocabularies = [49152, 128256, 262144];
const find = (where, setting, V, starts) =>
  results.find(
    (one) => one.where === where && one.setting === setting && one.V === V && starts.some((start) => one.path.startsWith(start)),
  );
const time = (one) =>
  one === undefined
    ? "–"
    : one.median_us < 100
      ? one.median_us.toFixed(0)
      : Number(one.median_us.toPrecision(3)).toLocaleString("en");
const times = (one, ours) =>
  one === undefined ? "–" : `${time(one)} (${Number((one.median_us / ours.median_us).toPrecision(2))}×)`;
const count = (number) => number.toLocaleString("en");

const lines = [
  `Microseconds per token: medians of interleaved runs on ${machine.cpu} with ${machine.cores} cores, ${date.slice(0, 10)}, commit \`${commit}\`, load ${load.toFixed(1)} at the start.`,
  "Native times are the processor time of one thread, Chromium times are wall-clock times. A number in brackets is the ratio to Quillmate in the same environment.",
  "*One pass* only finds the row's maximum. *Ours, wasm* reads a row in `logitsBuffer`; *row copied in* reads any other array.",
  "",
  "| V | setting (T 0.8) | one pass | ours | contract's steps | llama.cpp | candle | llm-samplers | ours, wasm | row copied in | transformers.js |",
  "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
];
for (const V of vocabularies) {
  for (const setting of settings) {
    const of = (...starts) => find("native", setting, V, starts);
    const ours = of("quillmate, widest") ?? of("quillmate, baseline");
    const copied = find("Chromium", setting, V, ["quillmate, wasm"]);
    const uncopied = results.find((one) => one.V === V && one.setting === setting && one.path === "quillmate, wasm, logitsBuffer");
    const wasm = uncopied ?? copied;
    // It has no top-p: beside k 50, p .95 stands its k 50.
    const js = find("Chromium", setting === "k 50, p .95" ? "k 50" : setting, V, ["transformers.js"]);
    const peers = ["quillmate, contract", "llama.cpp", "candle", "llm-samplers"].map((path) => times(of(path), ours));
    const cells = [
      count(V),
      setting,
      time(of("one pass")),
      `**${time(ours)}**`,
      ...peers,
      time(wasm),
      time(copied),
      wasm ? times(js, wasm) : "–",
    ];
    lines.push(`| ${cells.join(" | ")} |`);
  }
}
lines.push("");
const batches = results.filter((one) => one.setting === "batch of 32, mixed" && one.path === "2 threads");
if (batches.length > 0) {
  const each = batches.map((one) => `${one.speed_up.toFixed(2)} at V = ${count(one.V)}`);
  lines.push(`* Speed-up of two threads over one for a batch of 32 rows with mixed settings: ${each.join(", ")}.`);
}
for (const step of results.filter((one) => one.setting === "step of the model")) {
  const [ours, theirs] = [step.ours_ms, step["llama.cpp_ms"]].map((ms) => ms.toFixed(1));
  const [fast, theirsFast] = [step.ours_fastest_tenth_ms, step["llama.cpp_fastest_tenth_ms"]].map((ms) => ms.toFixed(1));
  const threads = step.threads === 1 ? "one thread" : `${step.threads} threads`;
  lines.push(
    `* One step of SmolLM2-135M on ${threads}, alternating with llama.cpp: ${ours} ms here, ${theirs} ms in llama.cpp (median ratio ${step.median_ratio.toFixed(2)}); the fastest tenth of steps ${fast} ms and ${theirsFast} ms.`,
  );
}
if (load > 1) {
  lines.push(
    "* Other programs used the cores during the measurement. This makes wall-clock times longer (Chromium, batches, the model's steps), most of all on two threads and for llama.cpp, whose threads wait for each other.",
  );
}
if (differential !== null) {
  const { draws, fallbacks, of_models: models } = differential;
  lines.push(
    `* The fast path was compared with the contract's own steps on ${count(draws)} draws; none differed. It fell back to these steps on ${count(models.fallbacks)} of ${count(models.draws)} draws from rows of models, and on ${count(fallbacks - models.fallbacks)} of the others, whose rows were made to provoke it (all logits equal, p·V a whole number).`,
  );
}
const page = results.filter((one) => one.where === "step");
if (page.length > 0) {
  const row = (label, of, digits) => `| ${label} | ${page.map((one) => of(one).toFixed(digits)).join(" | ")} |`;
  lines.push(
    "",
    `| one token of a story, milliseconds (V = 49,152) | ${page.map((one) => one.name).join(" | ")} |`,
    `|---|${page.map(() => "--:").join("|")}|`,
    row("model, one step", (one) => one.model, 1),
    row("server: sample", (one) => one.server_sample, 3),
    row("server: make and encode the frame", (one) => one.frame, 3),
    row("HTTP on loopback, and reading the store", (one) => one.http, 3),
    row("page: decode the frame", (one) => one.decode, 3),
    row("page: sample", (one) => one.sample, 3),
    row("page: scripts", (one) => one.script, 3),
    row("page: style and layout", (one) => one.layout, 3),
    row("page: paint and raster", (one) => one.paint, 3),
    row("whole token, as the stream delivers it", (one) => one.wall, 1),
    row("decode and sample, % of the model's step", (one) => one.percent, 2),
  );
}

const [start, end] = ["<!-- From benches/results.json by `node benches/table.mjs`. -->", "<!-- End of the tables. -->"];
const document = read("docs/speed.md");
const [from, to] = [document.indexOf(start), document.indexOf(end)];
if (from < 0 || to < from) throw new Error(`docs/speed.md has no ${start} … ${end}`);
const made = {
  "docs/speed.md": `${document.slice(0, from + start.length)}\n\n${lines.join("\n")}\n\n${document.slice(to)}`,
  "docs/speed.svg": chart(measured),
};
for (const [file, text] of Object.entries(made)) {
  if (process.argv[2] !== "--check") {
    writeFileSync(join(root, file), text);
  } else if (!existsSync(join(root, file)) || read(file) !== text) {
    console.error(`${file} is not what benches/results.json gives: node benches/table.mjs`);
    process.exit(1);
  } else {
    console.log(`${file} is what benches/results.json gives.`);
  }
}
