// The consumers, a row each: what it is, and how it comes to a report (projects/shared/report.js). Those with `quick` are of
// `make test`, all of `make consumers`.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { bin, inChromium, moved, npmInstall, output, pkg, project, reported, served, serving, tool } from "./support.mjs";

const node = process.execPath;
const node18 = join(import.meta.dirname, "node_modules/node18/bin/node");

/** A page built into `dist`, opened from where it was moved to. */
const page = (dist, headers) => served(moved(dist), inChromium, headers);
/** A program built into `dist`, run from where it was moved to. */
const program = (dist, name, command = node, args = []) => {
  const folder = moved(dist);
  return reported(command, [...args, join(folder, name)], { cwd: folder });
};

const viteOptions = (folder) => ({ root: folder, configFile: false, logLevel: "warn" });
const viteBuild = async (name, folder, build = {}, more = {}) =>
  (await tool(name)).build({ ...viteOptions(folder), build: { target: "es2022", reportCompressedSize: false, ...build }, ...more });
const vite = (name, quick) => [
  {
    name: `Vite ${name.replace("vite", "") || 7}, dev server`,
    tool: name,
    quick,
    async run() {
      const server = await (await tool(name)).createServer({ ...viteOptions(project(`${name} dev`)), server: { host: "127.0.0.1", port: 0 } });
      try {
        await server.listen();
        return await inChromium(server.resolvedUrls.local[0]);
      } finally {
        await server.close();
      }
    },
  },
  {
    name: `Vite ${name.replace("vite", "") || 7}, build`,
    tool: name,
    quick,
    async run() {
      const folder = project(`${name} build`);
      await viteBuild(name, folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: `Vite ${name.replace("vite", "") || 7}, build for a server`,
    tool: name,
    quick,
    async run() {
      const folder = project(`${name} server`);
      await viteBuild(name, folder, { ssr: "program.js" }, { ssr: { noExternal: true } });
      return program(join(folder, "dist"), "program.js");
    },
  },
];

const bundle = (configuration) => (compiler) =>
  new Promise((resolve, reject) => {
    // (Its hint on the size of assets is no finding.)
    compiler({ mode: "production", performance: false, ...configuration }, (error, stats) => {
      if (error) reject(error);
      else if (stats.hasErrors() || stats.hasWarnings()) reject(new Error(stats.toString()));
      else resolve();
    });
  });
/** webpack and what takes its configuration. */
const webpackLike = (label, name, load, quick) => [
  {
    name: `${label}, build`,
    tool: name,
    quick,
    async run() {
      const folder = project(`${label} page`);
      await bundle({ context: folder, entry: "./page.js", output: { path: join(folder, "dist"), filename: "page.js" } })(await load());
      writeFileSync(join(folder, "dist/index.html"), readFileSync(join(folder, "index.html")));
      return page(join(folder, "dist"));
    },
  },
  {
    name: `${label}, build for a server`,
    tool: name,
    quick,
    async run() {
      const folder = project(`${label} server`);
      await bundle({ target: "node", context: folder, entry: "./program.js", output: { path: join(folder, "dist"), filename: "program.cjs" } })(await load());
      return program(join(folder, "dist"), "program.cjs");
    },
  },
];

const esbuild = async (folder, options) =>
  (await tool("esbuild")).build({ absWorkingDir: folder, bundle: true, logLevel: "error", ...options });
const rollup = async (folder, input, resolution, file) => {
  const [{ rollup: start }, { nodeResolve }] = [await tool("rollup"), await tool("@rollup/plugin-node-resolve")];
  const built = await start({
    input: join(folder, input),
    plugins: [nodeResolve(resolution)],
    onwarn: (warning) => assert.fail(warning.message),
  });
  await built.write({ file: join(folder, "dist", file), format: "es" });
  await built.close();
};
const withPage = (folder) => writeFileSync(join(folder, "dist/index.html"), readFileSync(join(folder, "index.html")));

/** A page that starts a worker of this kind, which runs the cases. */
const workerPage = {
  "page.js": `
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => (globalThis.report = data);
    worker.onerror = (event) => (globalThis.report = { failed: event.message ?? "the worker failed" });
  `,
  "worker.js": `
    import { run } from "./run.js";
    run().then(postMessage, (error) => postMessage({ failed: String(error?.stack ?? error) }));
  `,
};

/** The lines of README.md for a wasm beside the script. */
const slimRun = (given, imports = "") => `
  import init, { Frame, Generator, randomSeed, sampleToken } from "@quillmate/sampler/slim";
  import { report } from "./report.js";
  ${imports}
  export async function run() {
    await init({ module_or_path: ${given} });
    return report({ Frame, Generator, randomSeed, sampleToken });
  }
`;
const wasmFiles = (folder) => readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(".wasm"));
/** One wasm, which is the package's. */
const oneWasm = (dist) => {
  const emitted = wasmFiles(dist);
  assert.equal(emitted.length, 1, `emitted: ${emitted.join(", ")}`);
  assert.deepEqual(readFileSync(join(dist, emitted[0])), readFileSync(join(pkg, "sampler_bg.wasm")));
};

const freePort = () =>
  new Promise((resolve, reject) => {
    const server = createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
/** The JSON at an address, once a server is there. */
const json = async (address) => {
  for (let tries = 0; ; tries++) {
    try {
      const response = await fetch(address);
      const text = await response.text();
      assert.equal(response.status, 200, text);
      return JSON.parse(text);
    } catch (error) {
      if (tries === 100 || error instanceof assert.AssertionError) throw error;
      await pause(100);
    }
  }
};

// A policy under which nothing is fetched but the page's own scripts, and wasm may be compiled.
const policy = { "content-security-policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'" };

export const table = [
  { name: "Node, import", tool: "Node", quick: true, run: () => reported(node, ["program.js"], { cwd: npmInstall("node") }) },
  {
    name: "Node, require",
    tool: "Node",
    quick: true,
    run: () => reported(node, ["required.cjs"], { cwd: project("node require", { files: { "required.cjs": requiring } }) }),
  },
  ...(["import", "require"].map((how) => ({
    name: `Node 18, ${how}`,
    tool: "node18",
    quick: true,
    run: () =>
      how === "import"
        ? reported(node18, ["program.js"], { cwd: project("node 18 import") })
        : reported(node18, ["required.cjs"], { cwd: project("node 18 require", { files: { "required.cjs": requiring } }) }),
  }))),
  ...vite("vite5", true),
  ...vite("vite6", false),
  ...vite("vite", false),
  ...vite("vite8", true),
  ...webpackLike("webpack", "webpack", async () => (await tool("webpack")).default, true),
  {
    name: "esbuild",
    tool: "esbuild",
    quick: true,
    async run() {
      const folder = project("esbuild page");
      await esbuild(folder, { entryPoints: ["page.js"], outdir: "dist" });
      withPage(folder);
      return page(join(folder, "dist"));
    },
  },
  ...["esm", "cjs"].map((format) => ({
    name: `esbuild --platform=node --format=${format}`,
    tool: "esbuild",
    quick: true,
    async run() {
      const folder = project(`esbuild ${format}`);
      const name = format === "esm" ? "program.mjs" : "program.cjs";
      await esbuild(folder, { entryPoints: ["program.js"], platform: "node", format, outfile: `dist/${name}` });
      return program(join(folder, "dist"), name);
    },
  })),
  {
    name: "Rollup",
    tool: "rollup",
    quick: true,
    async run() {
      const folder = project("rollup page");
      await rollup(folder, "page.js", { browser: true }, "page.js");
      withPage(folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: "Rollup, build for a server",
    tool: "rollup",
    quick: true,
    async run() {
      const folder = project("rollup server");
      await rollup(folder, "program.js", { exportConditions: ["node"] }, "program.mjs");
      return program(join(folder, "dist"), "program.mjs");
    },
  },
  {
    name: "workerd",
    tool: "workerd",
    quick: true,
    async run() {
      const folder = project("workerd");
      // As wrangler bundles: its conditions, and the wasm as a module beside the script.
      await esbuild(folder, {
        entryPoints: ["worker.js"],
        format: "esm",
        outdir: "dist",
        conditions: ["workerd", "worker", "browser"],
        loader: { ".wasm": "copy" },
        assetNames: "sampler_bg",
      });
      oneWasm(join(folder, "dist"));
      const port = await freePort();
      return serving(bin("workerd"), ["serve", "workerd.capnp", "--socket-addr", `http=127.0.0.1:${port}`], { cwd: folder }, () =>
        json(`http://127.0.0.1:${port}/`),
      );
    },
  },
  {
    name: "a page under a strict Content-Security-Policy",
    tool: "vite8",
    quick: true,
    async run() {
      const folder = project("csp");
      await viteBuild("vite8", folder);
      return page(join(folder, "dist"), policy);
    },
  },
  {
    name: "a module worker",
    tool: "vite8",
    quick: true,
    async run() {
      const folder = project("worker", { files: workerPage });
      await viteBuild("vite8", folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: "slim, a wasm beside the script",
    tool: "vite8",
    quick: true,
    async run() {
      const imports = 'import url from "@quillmate/sampler/sampler_bg.wasm?url";';
      const folder = project("slim", { files: { "run.js": slimRun("url", imports) } });
      await viteBuild("vite8", folder);
      oneWasm(join(folder, "dist"));
      return page(join(folder, "dist"));
    },
  },
  {
    name: "slim, a wasm beside the script",
    tool: "webpack",
    quick: true,
    async run() {
      const given = 'new URL("@quillmate/sampler/sampler_bg.wasm", import.meta.url)';
      const folder = project("slim webpack", { files: { "run.js": slimRun(given) } });
      await bundle({ context: folder, entry: "./page.js", output: { path: join(folder, "dist"), filename: "page.js" } })((await tool("webpack")).default);
      withPage(folder);
      oneWasm(join(folder, "dist"));
      return page(join(folder, "dist"));
    },
  },
];

const requiring = `
  const sampler = require("@quillmate/sampler");
  // Ready at once; awaiting init() does no harm.
  sampler.sampleToken(new Float32Array([1]), {}, 0);
  sampler.default().then(async () => {
    const { report } = await import("./report.js");
    console.log(JSON.stringify(report(sampler)));
  });
`;
