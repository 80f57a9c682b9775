// What others wrote and the npm package carries, with their licences: the crates compiled into the wasm, Rust's standard
// library, and the inflate that unpacks the wasm. The build writes it into the package, so `make test` finds it out of date.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "../..");
const cargo = (...args) => execFileSync("cargo", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });

/** The texts that must go with a package. Of several licences to choose from MIT is taken, where it is one of them. */
function texts(folder, expression) {
  const names = readdirSync(folder).filter((name) => /^(licen[cs]e|copying|notice|unlicense)/i.test(name));
  const taken = names.includes("LICENSE-MIT")
    ? names.filter((name) => name === "LICENSE-MIT" || (expression.includes(" AND ") && name !== "LICENSE-APACHE"))
    : names;
  if (taken.length === 0) throw new Error(`${folder} holds no licence (${expression})`);
  return taken.sort().map((name) => readFileSync(join(folder, name), "utf8").replaceAll("\r", "").trim());
}

/** Every crate in the wasm. `cargo tree` knows which features the package alone is built with, `cargo metadata` where the sources are. */
function crates() {
  const target = ["wasm32-unknown-unknown", "--locked"];
  const flags = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}"];
  const tree = cargo("tree", "--package", "quillmate-sampler", "--target", ...target, ...flags);
  const used = new Set(tree.trim().split("\n").map((line) => line.split(" ").slice(0, 2).join(" ")));
  const { packages } = JSON.parse(cargo("metadata", "--format-version", "1", "--filter-platform", ...target));
  return packages
    .filter(({ name, version, source }) => source !== null && used.has(`${name} v${version}`))
    .map(({ name, version, license, manifest_path }) => ({
      name: `${name} ${version}`,
      licence: license,
      texts: texts(dirname(manifest_path), license),
    }));
}

function standardLibrary() {
  const [release] = /\d+\.\d+\.\d+/.exec(execFileSync("rustc", ["--version"], { cwd: root, encoding: "utf8" }));
  const said = "Copyright (c) The Rust Project Developers (see https://thanks.rust-lang.org)\n\n";
  const licence = "MIT OR Apache-2.0; its compiler-builtins: MIT AND Apache-2.0 WITH LLVM-exception AND (MIT OR Apache-2.0)";
  const mit = readFileSync(join(root, "LICENSE-MIT"), "utf8");
  const text = said + mit.slice(mit.indexOf("Permission")).trim();
  return { name: `Rust's standard library ${release}`, licence, texts: [text] };
}

function inflate() {
  const folder = join(import.meta.dirname, "node_modules/fflate");
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return { name: `fflate ${version} (npm)`, licence: license, texts: texts(folder, license) };
}

/** @returns {string} the file */
export function thirdParty() {
  const all = [...crates(), standardLibrary(), inflate()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = new Map(); // of those who share a text
  for (const one of all) for (const text of one.texts) names.set(text, [...(names.get(text) ?? []), one.name]);
  const list = all.map(({ name, licence }) => `  ${name}: ${licence}`);
  const rule = "-".repeat(80);
  const parts = [...names].map(([text, of]) => `${rule}\n${of.join(", ")}\n${rule}\n\n${text}\n`);
  return `The package @quillmate/sampler is licensed MIT OR Apache-2.0 (LICENSE-MIT, LICENSE-APACHE). It carries code of these:

${list.join("\n")}

Where they may be had under one of several licences, they are used under the MIT licence.

${parts.join("\n")}`;
}
