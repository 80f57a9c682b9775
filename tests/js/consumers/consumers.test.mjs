// The packed tarball in the hands of its users. Each consumer runs the vectors and is held against them.
// CONSUMERS=all runs the whole table, and writes docs/consumers.md.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { bin, check, closeChromium, output, pack, pkg, project, unpack, version } from "./support.mjs";
import { table } from "./table.mjs";

const all = process.env.CONSUMERS === "all";
const results = [];
let files;
before(() => {
  files = pack();
});
after(async () => {
  await closeChromium();
  unpack();
});

test("the tarball holds what it should, the wasm too", () => {
  const both = ["embedded", "index", "node", "options", "sampler", "slim"];
  const scripts = [...both, "edge-light", "workerd"].map((name) => `${name}.js`);
  const types = ["index", "sampler", "sampler_bg.wasm", "slim"].flatMap((name) => [`${name}.d.cts`, `${name}.d.ts`]);
  const expected = ["README.md", "package.json", "sampler_bg.wasm", ...scripts, ...both.map((name) => `${name}.cjs`), ...types];
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
  { files: ["consumer.ts", "entries.ts", "required.cts"], options: { lib: ["ES2022"], ...nodenext }, only: ["typescript50", "typescript"] },
  { files: ["consumer.ts", "entries.ts", "dom.ts"], options: { lib: ["ES2022", "DOM"], types: ["node"], ...bundler } },
  { files: ["entries.ts", "dom.ts", "using.ts"], options: { lib: ["ESNext", "DOM"], ...nodenext }, only: ["typescript"] },
];
for (const compiler of ["typescript50", "typescript59", "typescript"]) {
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

for (const consumer of table.filter(({ quick }) => quick || all)) {
  test(`${consumer.name} (${consumer.tool})`, { timeout: 300_000 }, async (t) => {
    const found = consumer.tool === "Node" ? process.versions.node : version(consumer.tool);
    const note = (result) => results.push({ ...consumer, found, result });
    if (found === null) {
      const reason = `${consumer.tool} is not installed here`;
      note(`not run: ${reason}`);
      t.skip(reason);
      return;
    }
    try {
      check(await consumer.run());
    } catch (error) {
      note("**failed**");
      throw error;
    }
    note("passed");
  });
}
