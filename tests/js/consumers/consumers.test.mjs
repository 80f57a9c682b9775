// The packed tarball in the hands of its users. Each consumer runs the vectors and is held against them.
// CONSUMERS=all runs the whole table, and writes docs/consumers.md.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { bin, check, chromiumVersion, closeChromium, output, pack, pkg, project, unpack, version } from "./support.mjs";
import { table, wire } from "./table.mjs";

const all = process.env.CONSUMERS === "all";
const results = [];
let files;
before(() => {
  files = pack();
});
after(async () => {
  if (results.length === table.length && sizes) write();
  for (const { name, result } of results) if (result.startsWith("**not run**")) console.log(`${name}: ${result.replaceAll("*", "")}`);
  await closeChromium();
  unpack();
});

test("the tarball holds what it should, the wasm too", () => {
  const both = ["embedded", "index", "node", "node-seed", "options", "sampler", "slim", "slim-node"];
  const scripts = [...both, "edge-light", "workerd"].map((name) => `${name}.js`);
  const types = ["index", "sampler", "sampler_bg.wasm", "slim"].flatMap((name) => [`${name}.d.cts`, `${name}.d.ts`]);
  const papers = ["CONTRACT.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "THIRD-PARTY-LICENSES", "legacy-contract.md", "record.schema.json"];
  const expected = [...papers, "package.json", "sampler_bg.wasm", ...scripts, ...both.map((name) => `${name}.cjs`), ...types];
  assert.deepEqual(files, expected.sort());
});

test("publint finds nothing", async () => {
  const said = await output(bin("publint"), [pkg, "--strict"]);
  assert.match(said, /All good!/);
});

test("Are The Types Wrong? They are right, for every way to resolve them", async () => {
  const { problems, analysis } = JSON.parse(await output(bin("attw"), ["--pack", pkg, "--format", "json"]));
  assert.deepEqual(problems ?? {}, {});
  assert.deepEqual(Object.keys(analysis.entrypoints).sort(), [".", "./package.json", "./sampler_bg.wasm", "./slim"]);
});

// Both ways to resolve, and with the libraries there may be. The older compilers take seconds for each, so not all take all.
const nodenext = { module: "nodenext" };
const bundler = { module: "esnext", moduleResolution: "bundler" };
const projects = [
  { files: ["consumer.ts", "entries.ts", "required.cts"], options: { lib: ["ES2022"], ...nodenext }, only: ["typescript50", "typescript70"] },
  { files: ["consumer.ts", "entries.ts", "dom.ts"], options: { lib: ["ES2022", "DOM"], types: ["node"], ...bundler } },
  { files: ["entries.ts", "dom.ts", "using.ts"], options: { lib: ["ESNext", "DOM"], ...nodenext }, only: ["typescript70"] },
];
for (const compiler of ["typescript50", "typescript59", "typescript70"]) {
  const release = version(compiler);
  test(`the types compile in the strictest mode, TypeScript ${release}`, async () => {
    const folder = project(`types ${compiler}`, { from: "../../types" });
    const { compilerOptions } = JSON.parse(readFileSync(join(folder, "tsconfig.json"), "utf8"));
    const tsc = join(import.meta.dirname, "node_modules", compiler, "bin/tsc");
    const runs = projects
      .filter(({ only }) => only?.includes(compiler) ?? true)
      .map(({ files, options }, at) => {
        const name = `tsconfig.${at}.json`;
        writeFileSync(join(folder, name), JSON.stringify({ compilerOptions: { ...compilerOptions, ...options }, files }));
        return output(process.execPath, [tsc, "-p", name], { cwd: folder });
      });
    assert.ok(runs.length > 0);
    await Promise.all(runs);
  });
}

let sizes;
test("README: what the embedded wasm costs on the wire", async () => {
  sizes = await wire();
  assert.deepEqual([sizes.default.files, sizes.slim.files], [1, 2]);
  const readme = readFileSync(join(pkg, "README.md"), "utf8").replaceAll("\n", " ");
  const [, gzip, brotli] = /saves (\d+) % of what is loaded with gzip and (\d+) % with Brotli/.exec(readme);
  for (const [coding, said] of Object.entries({ gzip, brotli })) {
    const saved = 100 * (1 - sizes.slim[coding] / sizes.default[coding]);
    assert.ok(Math.abs(saved - said) < 3, `${coding}: ${saved.toFixed(1)} %, and README says ${said} %`);
  }
  const wasm = readFileSync(join(pkg, "sampler_bg.wasm"));
  const [, gzipped, brotlied] = /is (\d+) kB with gzip and (\d+) kB with Brotli/.exec(readme);
  for (const [bytes, said] of [[gzipSync(wasm, { level: 9 }), gzipped], [brotliCompressSync(wasm), brotlied]]) {
    assert.ok(Math.abs(bytes.length / 1000 - said) < 3, `${bytes.length} bytes, and README says ${said} kB`);
  }
});

for (const consumer of table.filter(({ quick }) => quick || all)) {
  test(`${consumer.name} (${consumer.tool})`, { timeout: 1_200_000 }, async (t) => {
    const found = consumer.tool === "Node" ? process.versions.node : version(consumer.tool);
    const note = (result) => results.push({ ...consumer, found: found ?? "", result });
    if (found === null) {
      const reason = `${consumer.tool} could not be installed here`;
      note(`**not run**: ${reason}`);
      t.skip(reason);
      return;
    }
    try {
      for (const report of [await consumer.run()].flat()) check(report);
    } catch (error) {
      note("**failed**");
      throw error;
    }
    note("passed");
  });
}

/** docs/consumers.md, of a whole run. */
function write() {
  const rows = results.map(({ name, tool, found, result }) => `| ${name} | ${tool.replace(/^([a-z]+)\d+$/, "$1")} ${found} | ${result} |`);
  const kb = (size) => `${size.toFixed(1)} kB`;
  const wireRows = Object.entries(sizes).map(([entry, { files, plain, gzip, brotli }]) => `| ${entry} | ${files} | ${kb(plain)} | ${kb(gzip)} | ${kb(brotli)} |`);
  const text = `# Consumers of the npm package

\`make consumers\` writes this file; its last run was on ${new Date().toISOString().slice(0, 10)}, with Node ${process.versions.node} and Chromium ${chromiumVersion()}.
Each consumer installs the packed tarball, runs the lines of the package's README and every draw of every case of
\`tests/vectors/contract.json\`, and is held against the vectors. What is built is moved away from its project first, and must
not name the folder it was built in. Versions are pinned in \`tests/js/consumers/package.json\`.

| Consumer | Tool | Result |
| --- | --- | --- |
${rows.join("\n")}

## On the wire

The README's lines, built by Vite ${version("vite8")}: the wasm within the script (the default entry) and beside it (\`slim\`).

| Entry | Files | Size | gzip | Brotli |
| --- | --- | --- | --- | --- |
${wireRows.join("\n")}
`;
  mkdirSync(new URL("../../../docs/", import.meta.url), { recursive: true });
  writeFileSync(new URL("../../../docs/consumers.md", import.meta.url), text);
}
