// mutants.mjs PACKAGE OUT ACCEPTED: the score of a run of cargo-mutants, and the mutants that no test noticed and nobody accepted.
// ACCEPTED has a line for each accepted one: the mutant without its line and column, then " # " and the reason.
import { readFileSync } from "node:fs";

const [name, out, acceptedFile] = process.argv.slice(2);
const lines = (file) => readFileSync(file, "utf8").split("\n").filter((line) => line !== "" && !line.startsWith("#"));
const listed = (kind) => lines(`${out}/${kind}.txt`);
// "src/core/ln.rs:12:5: replace + with -": places move with every edit.
const withoutPlace = (mutant) => mutant.replace(/^([^:]+):\d+:\d+: /, "$1: ");

const accepted = new Map(lines(acceptedFile).map((line) => line.split(" # ")));
for (const [mutant, reason] of accepted) if (!reason) throw new Error(`no reason is given for: ${mutant}`);
const [caught, timeout, missed] = ["caught", "timeout", "missed"].map(listed);
const survivors = missed.filter((mutant) => !accepted.has(withoutPlace(mutant)));
const noticed = caught.length + timeout.length;
const tried = noticed + missed.length;
if (tried === 0) throw new Error(`${name}: no mutant was tried`);
for (const mutant of survivors) console.log(`survived: ${mutant}`);
const percent = ((100 * noticed) / tried).toFixed(1);
console.log(
  `${name}: ${noticed} of ${tried} mutants noticed (${percent} %), ${missed.length - survivors.length} accepted with a reason, ${survivors.length} survived`,
);
process.exitCode = survivors.length > 0 ? 1 : 0;
