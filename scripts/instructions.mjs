// instructions.mjs FILE RUSTC [--update] <COUNTS: lines "case_NAME COUNT", against the counts of FILE.
import { readFileSync, writeFileSync } from "node:fs";

const [file, rustc, update] = process.argv.slice(2);
const lines = readFileSync(0, "utf8").trim().split("\n");
const counted = Object.fromEntries(lines.map((line) => [line.split(" ")[0].replace("case_", ""), Number(line.split(" ")[1])]));
for (const [name, count] of Object.entries(counted)) {
  // A call and its return alone would be a handful: then the function was not found.
  if (!(count > 1000)) throw new Error(`${name}: counted ${count} instructions, so the case was not run`);
}
if (update === "--update") {
  writeFileSync(file, `${JSON.stringify({ rustc, instructions: counted }, null, 2)}\n`);
}
const before = JSON.parse(readFileSync(file, "utf8"));
if (before.rustc !== rustc) console.log(`(counted with rustc ${rustc}; the file is of ${before.rustc})`);
const names = [...new Set([...Object.keys(before.instructions), ...Object.keys(counted)])];
let failed = false;
for (const name of names) {
  const [now, then] = [counted[name], before.instructions[name]];
  const known = now !== undefined && then !== undefined;
  const change = known ? (now / then - 1) * 100 : NaN;
  const verdict = !known ? "has no counterpart" : change > 5 ? "MORE THAN 5 % ABOVE" : change < -5 ? "less: worth an update" : "";
  failed ||= !known || change > 5;
  const cells = [
    name.padEnd(18),
    String(now ?? "-").padStart(12),
    String(then ?? "-").padStart(12),
    `${change.toFixed(2)} %`.padStart(9),
  ];
  console.log(`${cells.join(" ")}  ${verdict}`.trimEnd());
}
if (failed) {
  console.log("If that is meant: `scripts/instructions --update`, and commit benches/instructions.json.");
  process.exit(1);
}
