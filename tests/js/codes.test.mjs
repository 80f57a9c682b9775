// CONTRACT.md, section "Error codes", lists every code that occurs in the source, once, and no other.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root), "utf8");
const files = (folder, end) =>
  readdirSync(new URL(folder, root), { recursive: true })
    .filter((name) => name.endsWith(end))
    .map((name) => [`${folder}${name}`, read(`${folder}${name}`)]);

const all = (text, pattern) => [...text.matchAll(pattern)].map((match) => match[1]);
const CODE = /"([a-z]+(?:_[a-z0-9]+)+)"/g;

/** Names of fields that stand as text in the binding. */
const FIELDS = ["crate_version", "top_k", "top_p"];

/** Every code in the source, with the file it stands in. */
function inSource() {
  const found = new Map();
  const add = (codes, path) => codes.forEach((code) => found.set(code, path));
  for (const [path, text] of files("src/", ".rs")) {
    if (path.startsWith("src/wasm/")) {
      add(all(text, CODE).filter((code) => !FIELDS.includes(code)), path);
      // `counter` makes the code of the argument's name.
      add(all(text, /\bcounter\("(\w+)"/g).map((name) => `${name}_out_of_range`), path);
    } else {
      for (const body of all(text, /fn code\(&self\) -> &'static str \{\n([\s\S]*?)\n {4}\}\n/g)) add(all(body, CODE), path);
    }
  }
  const verify = "src/compare/verify.rs";
  add(all(read(verify), /(?:Err\(\(|\brefuse\(|Refused \{ code: )\s*"(\w+)"/g), verify);
  for (const [path, text] of files("src/wasm/", ".js")) add(all(text, /new SamplerError\("(\w+)"/g), path);
  return found;
}

/** The first column of the tables. */
function inContract() {
  const section = /^## Error codes\n([\s\S]*?)^## /m.exec(read("CONTRACT.md"))?.[1] ?? "";
  return all(section, /^\| `(\w+)` \|/gm);
}

test("every code in the source is listed", () => {
  const listed = new Set(inContract());
  const missing = [...inSource()].filter(([code]) => !listed.has(code)).map(([code, path]) => `${code} (${path})`);
  assert.deepEqual(missing, [], "codes in the source that CONTRACT.md does not list");
});

test("every listed code is in the source, and listed once", () => {
  const listed = inContract();
  const source = inSource();
  assert.deepEqual(listed.filter((code) => !source.has(code)), [], "codes in CONTRACT.md that are not in the source");
  assert.deepEqual(listed.filter((code, at) => listed.indexOf(code) !== at), [], "codes listed twice");
});

test("each way to find a code finds some", () => {
  const paths = new Set(inSource().values());
  const kinds = ["src/core/error.rs", "src/wire/frame.rs", "src/compare/verify.rs", "src/wasm/read.rs", "src/wasm/glue.js", "src/wasm/entries/slim.js"];
  assert.deepEqual(kinds.filter((path) => !paths.has(path)), []);
  assert.ok(inSource().has("attempt_out_of_range"));
});
