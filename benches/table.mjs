// table.mjs [--check]: the README's tables, from benches/results.json. With --check nothing is written: a README that says
// something else fails.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const read = (file) => readFileSync(join(root, file), "utf8");
const { machine, date, commit, load, results, differential } = JSON.parse(read("benches/results.json"));

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
  `Microseconds a token, medians of interleaved runs (${machine.cpu}, ${machine.cores} cores, ${date.slice(0, 10)}, at \`${commit}\`; load ${load.toFixed(1)} at the start): natively of what one thread computed, in Chromium of the time gone by;`,
  "in brackets how many times ours: the native one, for transformers.js the wasm, whose row lies in `logitsBuffer` (*row copied in*: in any array). *One pass* looks for the row's maximum and does nothing else.",
  "",
  "| V | setting (T 0.8) | one pass | ours | contract's steps | llama.cpp | candle | llm-samplers | ours, wasm | row copied in | transformers.js |",
  "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
];
for (const V of vocabularies) {
  for (const setting of settings) {
    const of = (...starts) => find("native", setting, V, starts);
    const ours = of("quillmate, widest") ?? of("quillmate, baseline");
    const copied = find("Chromium", setting, V, ["quillmate, wasm"]);
    const lent = results.find((one) => one.V === V && one.setting === setting && one.path === "quillmate, wasm, logitsBuffer");
    const wasm = lent ?? copied;
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
  lines.push(`A batch of 32 rows, the four settings in turn, on two threads against one: ${each.join(", ")} times the speed.`);
}
for (const step of results.filter((one) => one.setting === "step of the model")) {
  const [ours, theirs] = [step.ours_ms, step["llama.cpp_ms"]].map((ms) => ms.toFixed(1));
  const [fast, theirsFast] = [step.ours_fastest_tenth_ms, step["llama.cpp_fastest_tenth_ms"]].map((ms) => ms.toFixed(1));
  const threads = step.threads === 1 ? "one thread" : `${step.threads} threads`;
  lines.push(
    `A step of SmolLM2-135M in turn with llama.cpp's on ${threads}: ${ours} ms and ${theirs} ms (median ratio ${step.median_ratio.toFixed(2)}), the fastest tenth ${fast} and ${theirsFast}.`,
  );
}
if (load > 1) {
  lines.push(
    "Other programs wanted the cores meanwhile: times gone by (Chromium, batches, the model's steps) are longer for it, above all on two threads, and most of all llama.cpp's, which wait for each other.",
  );
}
if (differential !== null) {
  const { draws, fallbacks, of_models: models } = differential;
  lines.push(
    `Of ${count(draws)} draws compared with the contract's steps none differed. On rows of models ${count(models.fallbacks)} of ${count(models.draws)} were left to these steps; of the rest ${count(fallbacks - models.fallbacks)}, on rows made to provoke it (all logits equal, p·V a whole number).`,
  );
}
const page = results.filter((one) => one.where === "step");
if (page.length > 0) {
  const row = (label, of, digits) => `| ${label} | ${page.map((one) => of(one).toFixed(digits)).join(" | ")} |`;
  lines.push(
    "",
    `| a story's token, milliseconds (V = 49,152) | ${page.map((one) => one.name).join(" | ")} |`,
    `|---|${page.map(() => "--:").join("|")}|`,
    row("model, one step", (one) => one.model, 1),
    row("server: sample", (one) => one.server_sample, 3),
    row("server: make and encode the frame", (one) => one.frame, 3),
    row("HTTP on loopback, and the store read", (one) => one.http, 3),
    row("page: decode the frame", (one) => one.decode, 3),
    row("page: sample", (one) => one.sample, 3),
    row("page: scripts", (one) => one.script, 3),
    row("page: style and layout", (one) => one.layout, 3),
    row("page: paint and raster", (one) => one.paint, 3),
    row("all, as the stream came", (one) => one.wall, 1),
    row("decode and sample, % of the model's step", (one) => one.percent, 2),
  );
}

const [start, end] = ["<!-- From benches/results.json by `node benches/table.mjs`. -->", "<!-- End of the tables. -->"];
const readme = read("README.md");
const [from, to] = [readme.indexOf(start), readme.indexOf(end)];
if (from < 0 || to < from) throw new Error(`README.md has no ${start} … ${end}`);
const made = `${readme.slice(0, from + start.length)}\n\n${lines.join("\n")}\n\n${readme.slice(to)}`;
if (process.argv[2] === "--check") {
  if (made !== readme) {
    console.error("The README's tables are not those of benches/results.json: node benches/table.mjs");
    process.exit(1);
  }
  console.log("The README's tables are those of benches/results.json.");
} else {
  writeFileSync(join(root, "README.md"), made);
}
