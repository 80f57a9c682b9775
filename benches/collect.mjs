// collect.mjs DIFFERENTIAL NATIVE PAGE STEP CRITERION: what the parts of `make bench` left, as benches/results.json.
// DIFFERENTIAL is the table printed by the bench of that name; CRITERION a folder; the others are JSON lists.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";

const [differentialFile, nativeFile, pageFile, stepFile, criterionFolder] = process.argv.slice(2);
const list = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : []);
const said = (program, ...words) =>
  execFileSync(program, words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
const locked = (file, name) => new RegExp(`name = "${name}"\nversion = "(.*)"`).exec(readFileSync(file, "utf8"))?.[1];

function criterion(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(join("new", "benchmark.json")))
    .map((file) => {
      const { full_id: name } = JSON.parse(readFileSync(join(folder, file), "utf8"));
      const { median } = JSON.parse(readFileSync(join(folder, file, "../estimates.json"), "utf8"));
      const interval = [median.confidence_interval.lower_bound, median.confidence_interval.upper_bound];
      return { where: "criterion", name, median_us: median.point_estimate / 1000, interval_us: interval.map((ns) => ns / 1000) };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function differential(file) {
  if (!existsSync(file)) return null;
  const lines = [...readFileSync(file, "utf8").matchAll(/^(\S.*?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) /gm)];
  const all = lines.find(([, name]) => name === "all");
  if (all === undefined) throw new Error(`${file} has no line for all draws`);
  const [draws, compared, coarse, fine, fallbacks] = all.slice(2).map(Number);
  // Files of rows are those of models; all else was made to provoke.
  const models = lines.filter(([, name]) => name.endsWith(".f32"));
  const sum = (column) => models.reduce((total, line) => total + Number(line[column]), 0);
  return { draws, compared, coarse, fine, fallbacks, of_models: { draws: sum(2), fallbacks: sum(6) } };
}

const packages = JSON.parse(readFileSync("benches/peers/package-lock.json", "utf8")).packages;
const version = (name) => packages[`node_modules/${name}`].version;
const passes = Object.fromEntries(
  list(nativeFile)
    .filter((one) => one.path === "one pass")
    .map((one) => [one.V, one.median_us]),
);
// What a page takes is set against the native pass: it is the same row on the same machine.
const page = list(pageFile).map((one) => ({ ...one, passes: one.median_us / passes[one.V] }));
const results = [...list(nativeFile), ...page, ...list(stepFile), ...criterion(criterionFolder)];
const file = {
  machine: { cpu: cpus()[0].model, cores: cpus().length, memory_gb: Math.round(totalmem() / 2 ** 30) },
  date: new Date().toISOString(),
  load: Number(process.env.LOAD ?? loadavg()[0]),
  // What is measured: the sources, not these results.
  commit:
    said("git", "rev-parse", "--short=10", "HEAD") +
    (said("git", "status", "--porcelain", "--", "src", "server/src", "pkg", "www/src") === "" ? "" : ", changed"),
  rustc: said("rustc", "--version"),
  node: process.version,
  chromium: said(process.env.CHROMIUM ?? "/usr/bin/chromium", "--version").replace(/ built.*/, ""),
  peers: {
    "node-llama-cpp/linux-x64": version("@node-llama-cpp/linux-x64"),
    "transformers.js": version("@huggingface/transformers"),
    candle: locked("benches/peers/Cargo.lock", "candle-transformers"),
    "llm-samplers": locked("benches/peers/Cargo.lock", "llm-samplers"),
  },
  differential: differential(differentialFile),
  results,
};
writeFileSync("benches/results.json", `${JSON.stringify(file, null, 1)}\n`);
