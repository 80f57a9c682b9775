// finish FOLDER: from what wasm-pack left in FOLDER to what is published. Each step is here because wasm-pack does otherwise.
import { execFileSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commonjs } from "./commonjs.mjs";
import { embed } from "./embed.mjs";
import { thirdParty } from "./third-party.mjs";

const folder = process.argv[2];
const root = join(import.meta.dirname, "../..");
const entries = join(root, "src/wasm/entries");
const inFolder = (name) => join(folder, name);
const read = (path) => readFileSync(path, "utf8");
const write = (name, text) => writeFileSync(inFolder(name), text);

// `.gitignore` holds `*`, and `npm pack` obeys it: the package would ship without its wasm.
// `sampler_bg.wasm.d.ts` types the raw exports of the wasm, which nobody should call. The README is the crate's.
for (const name of [".gitignore", "sampler_bg.wasm.d.ts", "README.md"]) rmSync(inFolder(name), { force: true });

// The script must not name the wasm by its address: tools that move the script lose it, and webpack writes the address it
// has on the build machine into its output. Cargo.toml tells wasm-bindgen to leave it out.
if (read(inFolder("sampler.js")).includes("import.meta")) throw new Error("sampler.js looks for its wasm by itself");

// What an engine must know. The versions of browsers and of Node in README.md, and `engines` below, follow from this list:
// the last to come were reference types in Chrome (96) and Node (17.2), simd128 in Firefox (89) and Safari (16.4).
const features = ["simd", "reference-types", "bulk-memory", "sign-ext", "nontrapping-float-to-int", "mutable-globals", "multivalue"];
execFileSync("wasm-opt", ["--mvp-features", ...features.map((name) => `--enable-${name}`), "--quiet", inFolder("sampler_bg.wasm"), "-o", "/dev/null"]);

// A module or an instance of another realm, as the sandbox of Next's edge runtime gives it, is no `instanceof` this one's.
let glue = read(inFolder("sampler.js"));
for (const [from, to] of [
  ["!(module instanceof WebAssembly.Module)", 'Object.prototype.toString.call(module) !== "[object WebAssembly.Module]"'],
  ["instance instanceof WebAssembly.Instance", "instance.exports"],
]) {
  if (glue.split(from).length !== 2) throw new Error(`sampler.js should hold once: ${from}`);
  glue = glue.replace(from, to);
}
write("sampler.js", glue);

// The entries, the wasm as a script, and the CommonJS form of what CommonJS can reach.
const modules = ["edge-light", "index", "node", "node-seed", "options", "slim", "slim-node", "workerd"];
for (const name of modules) copyFileSync(join(entries, `${name}.js`), inFolder(`${name}.js`));
write("embedded.js", await embed(join(entries, "embedded.js"), readFileSync(inFolder("sampler_bg.wasm"))));
const required = ["embedded", "index", "node", "node-seed", "options", "sampler", "slim", "slim-node"];
for (const name of required) {
  write(`${name}.cjs`, await commonjs(inFolder(`${name}.js`), name === "sampler" ? join(entries, "utf8.js") : undefined));
}

// The types: wasm-bindgen's of the loading and of the raw exports make way for the entries' own. For CommonJS each file is
// there again, because what a `.d.ts` of a package of modules says is of modules.
const generated = read(inFolder("sampler.d.ts"));
const end = generated.indexOf("export type InitInput");
if (end < 0) throw new Error("sampler.d.ts has another form than expected");
write("sampler.d.ts", generated.slice(0, end).trimEnd() + "\n" + read(join(entries, "init.d.ts")));
for (const name of ["index", "slim"]) copyFileSync(join(entries, `${name}.d.ts`), inFolder(`${name}.d.ts`));
for (const name of ["index", "sampler", "slim"]) {
  write(`${name}.d.cts`, read(inFolder(`${name}.d.ts`)).replaceAll('"./sampler.js"', '"./sampler.cjs"'));
}
for (const format of ["ts", "cts"]) copyFileSync(join(entries, "sampler_bg.wasm.d.ts"), inFolder(`sampler_bg.wasm.d.${format}`));

// What the README and the types send their readers to, and the licences.
const papers = {
  "CONTRACT.md": "CONTRACT.md",
  "LICENSE-APACHE": "LICENSE-APACHE",
  "LICENSE-MIT": "LICENSE-MIT",
  "README.md": "scripts/pkg/README.md",
  "legacy-contract.md": "docs/legacy-contract.md",
  "record.schema.json": "src/wire/record.schema.json",
};
for (const [name, source] of Object.entries(papers)) copyFileSync(join(root, source), inFolder(name));
write("THIRD-PARTY-LICENSES", thirdParty());

// Rewritten whole: the name (wasm-pack knows the crate's only), the entries, what may be dropped when unused.
const { version, description, license, keywords } = JSON.parse(read(inFolder("package.json")));
const module = (name, types = "index") => ({ types: `./${types}.d.ts`, default: `./${name}.js` });
const script = (name, types = "index") => ({ types: `./${types}.d.cts`, default: `./${name}.cjs` });
const manifest = {
  name: "@quillmate/sampler",
  version,
  description,
  license,
  keywords: [...keywords, "logits", "token", "top-k", "top-p"],
  type: "module",
  // The first that a tool knows counts.
  exports: {
    ".": {
      workerd: module("workerd"),
      "edge-light": module("edge-light"),
      // `module-sync` is what `require` takes from Node 20.19 on: one instance, however it is imported.
      node: { "module-sync": module("node"), import: module("node"), require: script("node") },
      // `module` is the same for the `require` of bundlers.
      module: module("index"),
      import: module("index"),
      require: script("index"),
    },
    "./slim": {
      node: { "module-sync": module("slim-node", "slim"), import: module("slim-node", "slim"), require: script("slim-node", "slim") },
      module: module("slim", "slim"),
      import: module("slim", "slim"),
      require: script("slim", "slim"),
    },
    "./sampler_bg.wasm": {
      types: { import: "./sampler_bg.wasm.d.ts", require: "./sampler_bg.wasm.d.cts" },
      default: "./sampler_bg.wasm",
    },
    "./package.json": "./package.json",
  },
  // For tools that do not read `exports`: Parcel reads `module`.
  main: "./index.cjs",
  module: "./index.js",
  types: "./index.d.ts",
  engines: { node: ">=18" },
  files: [
    ...[...modules, "embedded", "sampler"].map((name) => `${name}.js`),
    ...required.map((name) => `${name}.cjs`),
    ...["index", "sampler", "slim"].flatMap((name) => [`${name}.d.ts`, `${name}.d.cts`]),
    "sampler_bg.wasm",
    "sampler_bg.wasm.d.cts",
    "sampler_bg.wasm.d.ts",
    ...Object.keys(papers),
    "THIRD-PARTY-LICENSES",
  ].sort(),
  // To import these loads the wasm; the others only define.
  sideEffects: ["./edge-light.js", "./node.cjs", "./node.js", "./workerd.js"],
};
write("package.json", `${JSON.stringify(manifest, null, 2)}\n`);

const expected = [...manifest.files, "package.json"].sort();
const found = readdirSync(folder).sort();
if (JSON.stringify(found) !== JSON.stringify(expected)) {
  throw new Error(`the package should hold ${expected.join(", ")}, and holds ${found.join(", ")}`);
}

// A path of this machine in a published file is a leak, and other bytes elsewhere.
const { HOME, CARGO_HOME } = process.env;
for (const name of found) {
  const bytes = readFileSync(inFolder(name), "latin1");
  for (const path of [root, CARGO_HOME, HOME, tmpdir()]) {
    if (path && path.length > 1 && bytes.includes(`${path}/`)) throw new Error(`${name} holds the path ${path}`);
  }
}
