// finish FOLDER: from what wasm-pack left in FOLDER to what is published. Each step is here because wasm-pack does otherwise.
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
const root = join(import.meta.dirname, "../..");
const inFolder = (name) => join(folder, name);
const json = (name) => JSON.parse(readFileSync(inFolder(name), "utf8"));

// `.gitignore` holds `*`, and `npm pack` obeys it: the package would ship without its wasm.
// `sampler_bg.wasm.d.ts` types the raw exports of the wasm, which nobody should call. The README is the crate's.
for (const name of [".gitignore", "sampler_bg.wasm.d.ts", "README.md"]) rmSync(inFolder(name), { force: true });

// Rewritten whole: the name (wasm-pack knows the crate's only), the entry for Node, what may be dropped when unused.
const { version, description } = json("package.json");
const manifest = {
  name: "@quillmate/sampler",
  version,
  description,
  type: "module",
  exports: {
    ".": { types: "./sampler.d.ts", node: "./node.js", default: "./sampler.js" },
    "./sampler_bg.wasm": "./sampler_bg.wasm",
    "./package.json": "./package.json",
  },
  // For tools that do not read `exports`.
  main: "./sampler.js",
  types: "./sampler.d.ts",
  files: ["node.js", "sampler.js", "sampler.d.ts", "sampler_bg.wasm"],
  // Importing node.js loads the wasm; sampler.js only defines.
  sideEffects: ["./node.js"],
};
writeFileSync(inFolder("package.json"), `${JSON.stringify(manifest, null, 2)}\n`);

copyFileSync(join(root, "src/wasm/node.js"), inFolder("node.js"));
copyFileSync(join(root, "scripts/pkg/README.md"), inFolder("README.md"));

// `[Symbol.dispose]` is not in the library of ES2022, and a consumer who checks libraries would be stopped by it.
const types = readFileSync(inFolder("sampler.d.ts"), "utf8");
writeFileSync(inFolder("sampler.d.ts"), `/// <reference lib="esnext.disposable" />\n${types}`);

const expected = [...manifest.files, "README.md", "package.json"].sort();
const found = readdirSync(folder).sort();
if (JSON.stringify(found) !== JSON.stringify(expected)) {
  throw new Error(`the package should hold ${expected.join(", ")}, and holds ${found.join(", ")}`);
}

// A path of this machine in a published file is a leak, and other bytes elsewhere.
const { HOME, CARGO_HOME } = process.env;
for (const name of found) {
  const bytes = readFileSync(inFolder(name), "latin1");
  for (const path of [root, CARGO_HOME, HOME]) {
    if (path && path.length > 1 && bytes.includes(`${path}/`)) throw new Error(`${name} holds the path ${path}`);
  }
}
