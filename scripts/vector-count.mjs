// vector-count KIND: how many cases of a kind the vectors hold.
import { readFileSync } from "node:fs";

const kind = process.argv[2];
const [file, section] = kind === "exp_hard" ? ["exp_hard", "exp"] : ["contract", kind];
console.log(JSON.parse(readFileSync(new URL(`../tests/vectors/${file}.json`, import.meta.url), "utf8"))[section].length);
