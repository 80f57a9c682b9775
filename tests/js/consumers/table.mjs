// The consumers, a row each: what it is, and how it comes to a report (projects/shared/report.js). Those with `quick` are of
// `make test`, all of `make consumers`.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { brotliCompressSync, gzipSync } from "node:zlib";
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
const labelOf = (name) => `Vite ${name.replace("vite", "") || 7}`;
const viteDev = async (name, folder) => {
  const server = await (await tool(name)).createServer({ ...viteOptions(folder), server: { host: "127.0.0.1", port: 0 } });
  try {
    await server.listen();
    return await inChromium(server.resolvedUrls.local[0]);
  } finally {
    await server.close();
  }
};
const vite = (name, quick) => [
  {
    name: `${labelOf(name)}, dev server`,
    tool: name,
    quick,
    run: () => viteDev(name, project(`${name} dev`)),
  },
  {
    name: `${labelOf(name)}, build`,
    tool: name,
    quick,
    async run() {
      const folder = project(`${name} build`);
      await viteBuild(name, folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: `${labelOf(name)}, build for a server`,
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
const urlOfWasm = 'import url from "@quillmate/sampler/sampler_bg.wasm?url";';
const wasmFiles = (folder) => readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(".wasm"));
/** One wasm, which is the package's. */
const oneWasm = (dist) => {
  const emitted = wasmFiles(dist);
  assert.equal(emitted.length, 1, `emitted: ${emitted.join(", ")}`);
  assert.deepEqual(readFileSync(join(dist, emitted[0])), readFileSync(join(pkg, "sampler_bg.wasm")));
};

const localAddress = /(http:\/\/127\.0\.0\.1:\d+)/;
const astro = { env: { ASTRO_TELEMETRY_DISABLED: "1" }, ready: localAddress };
const next = { NEXT_TELEMETRY_DISABLED: "1", TOOLS: import.meta.dirname };
const nextReports = async (address) => [...(await inChromium(`${address}/`)), await json(`${address}/route`), await json(`${address}/api/edge`)];

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
    name: "Vite 8, slim, build",
    tool: "vite8",
    quick: true,
    async run() {
      const folder = project("slim", { files: { "run.js": slimRun("url", urlOfWasm) } });
      await viteBuild("vite8", folder);
      oneWasm(join(folder, "dist"));
      return page(join(folder, "dist"));
    },
  },
  {
    name: "webpack, slim, build",
    tool: "webpack",
    async run() {
      const given = 'new URL("@quillmate/sampler/sampler_bg.wasm", import.meta.url)';
      const folder = project("slim webpack", { files: { "run.js": slimRun(given) } });
      await bundle({ context: folder, entry: "./page.js", output: { path: join(folder, "dist"), filename: "page.js" } })((await tool("webpack")).default);
      withPage(folder);
      oneWasm(join(folder, "dist"));
      return page(join(folder, "dist"));
    },
  },
  {
    name: "Vite 8, slim, dev server",
    tool: "vite8",
    quick: true,
    async run() {
      const folder = project("slim dev", { files: { "run.js": slimRun("url", urlOfWasm) } });
      return viteDev("vite8", folder);
    },
  },
  {
    name: "a page without a bundler",
    tool: "playwright-core",
    quick: true,
    async run() {
      const map = JSON.stringify({ imports: { "@quillmate/sampler": "./node_modules/@quillmate/sampler/index.js" } });
      const html = `<!doctype html><script type="importmap">${map}</script><script type="module" src="./page.js"></script>`;
      return served(project("import map", { files: { "index.html": html } }), inChromium);
    },
  },
  {
    name: "a classic worker",
    tool: "esbuild",
    async run() {
      const folder = project("classic worker", { files: { ...workerPage, "page.js": workerPage["page.js"].replace(', { type: "module" }', "") } });
      await esbuild(folder, { entryPoints: ["page.js"], format: "esm", outdir: "dist" });
      await esbuild(folder, { entryPoints: ["worker.js"], format: "iife", outdir: "dist" });
      withPage(folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: "a SharedWorker",
    tool: "vite8",
    async run() {
      const files = {
        "page.js": `
          const worker = new SharedWorker(new URL("./shared.js", import.meta.url), { type: "module" });
          worker.port.onmessage = ({ data }) => (globalThis.report = data);
          worker.onerror = (event) => (globalThis.report = { failed: event.message ?? "the worker failed" });
        `,
        "shared.js": `
          import { run } from "./run.js";
          const report = run().catch((error) => ({ failed: String(error?.stack ?? error) }));
          globalThis.onconnect = async ({ ports: [port] }) => port.postMessage(await report);
        `,
      };
      const folder = project("shared worker", { files });
      await viteBuild("vite8", folder);
      return page(join(folder, "dist"));
    },
  },
  {
    name: "a ServiceWorker",
    tool: "esbuild",
    async run() {
      const files = {
        "page.js": `
          navigator.serviceWorker.register("./service.js", { type: "module" });
          navigator.serviceWorker.ready
            .then(() => navigator.serviceWorker.controller ?? new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve)))
            .then(() => fetch("./report.json"))
            .then((response) => response.json())
            .then((report) => (globalThis.report = report), (error) => (globalThis.report = { failed: String(error) }));
        `,
        "service.js": `
          import { run } from "./run.js";
          addEventListener("install", () => skipWaiting());
          addEventListener("activate", (event) => event.waitUntil(clients.claim()));
          addEventListener("fetch", (event) => {
            if (!event.request.url.endsWith("/report.json")) return;
            event.respondWith(run().catch((error) => ({ failed: String(error?.stack ?? error) })).then((report) => Response.json(report)));
          });
        `,
      };
      const folder = project("service worker", { files });
      await esbuild(folder, { entryPoints: ["page.js", "service.js"], format: "esm", outdir: "dist" });
      withPage(folder);
      return page(join(folder, "dist"));
    },
  },
  ...webpackLike("Rspack", "@rspack/core", async () => (await tool("@rspack/core")).rspack),
  {
    name: "Parcel",
    tool: "parcel",
    async run() {
      const folder = project("parcel page");
      await output(bin("parcel"), ["build", "index.html", "--cache-dir=.parcel-cache", "--no-source-maps"], { cwd: folder });
      return page(join(folder, "dist"));
    },
  },
  {
    name: "Parcel, build for a server",
    tool: "parcel",
    async run() {
      const target = { context: "node", includeNodeModules: true, outputFormat: "esmodule", distDir: "dist" };
      const manifest = JSON.stringify({ private: true, type: "module", targets: { server: target } });
      const folder = project("parcel server", { files: { "package.json": manifest } });
      await output(bin("parcel"), ["build", "program.js", "--cache-dir=.parcel-cache", "--no-source-maps"], { cwd: folder });
      return program(join(folder, "dist"), "program.js");
    },
  },
  {
    name: "Astro, dev server: in the page and on the server",
    tool: "astro",
    run: () => serving(bin("astro"), ["dev", "--host", "127.0.0.1", "--port", "0"], { cwd: project("astro dev", { from: "astro" }), ...astro }, inChromium),
  },
  {
    name: "Astro, build: in the page and while building",
    tool: "astro",
    async run() {
      const folder = project("astro build", { from: "astro" });
      await output(bin("astro"), ["build"], { cwd: folder, env: astro.env });
      return page(join(folder, "dist"));
    },
  },
  ...["dev server", "build"].map((how) => ({
    name: `SvelteKit, ${how}: in the page and on the server`,
    tool: "@sveltejs/kit",
    async run() {
      const folder = project(`sveltekit ${how}`, { from: "sveltekit" });
      if (how === "build") await output(bin("vite"), ["build"], { cwd: folder });
      const command = how === "build" ? ["preview"] : ["dev"];
      return serving(bin("vite"), [...command, "--host", "127.0.0.1", "--port", String(await freePort())], { cwd: folder, ready: localAddress }, inChromium);
    },
  })),
  ...["Turbopack", "webpack"].flatMap((bundler) => [
    {
      name: `Next with ${bundler}, build: in the page, on the server, in a route, in the edge runtime`,
      tool: "next",
      async run() {
        const folder = project(`next build ${bundler}`, { from: "next" });
        await output(bin("next"), ["build", `--${bundler.toLowerCase()}`], { cwd: folder, env: next });
        return serving(bin("next"), ["start", "-H", "127.0.0.1", "-p", String(await freePort())], { cwd: folder, env: next, ready: localAddress }, nextReports);
      },
    },
    {
      name: `Next with ${bundler}, dev server: the same`,
      tool: "next",
      async run() {
        const folder = project(`next dev ${bundler}`, { from: "next" });
        const args = ["dev", `--${bundler.toLowerCase()}`, "-H", "127.0.0.1", "-p", String(await freePort())];
        return serving(bin("next"), args, { cwd: folder, env: next, ready: localAddress }, nextReports);
      },
    },
  ]),
  { name: "Deno", tool: "deno", run: () => reported(bin("deno"), ["run", "--allow-all", "--no-remote", "program.js"], { cwd: project("deno") }) },
  { name: "Bun", tool: "bun", run: () => reported(bin("bun"), ["program.js"], { cwd: project("bun") }) },
  {
    name: "bun build --target=browser",
    tool: "bun",
    async run() {
      const folder = project("bun page");
      await output(bin("bun"), ["build", "page.js", "--target=browser", "--outdir=dist"], { cwd: folder });
      withPage(folder);
      return page(join(folder, "dist"));
    },
  },
  ...["bun", "node"].map((target) => ({
    name: `bun build --target=${target}`,
    tool: "bun",
    async run() {
      const folder = project(`bun ${target}`);
      await output(bin("bun"), ["build", "program.js", `--target=${target}`, "--outdir=dist"], { cwd: folder });
      return program(join(folder, "dist"), "program.js", target === "bun" ? bin("bun") : node);
    },
  })),
  ...["jsdom", "node"].flatMap((environment) => [
    {
      name: `Jest with ${environment}`,
      tool: "jest",
      async run() {
        const folder = project(`jest ${environment}`, { from: "jest", type: "commonjs" });
        await output(bin("jest"), ["--rootDir", ".", "--env", environment, "--no-cache"], { cwd: folder });
        return JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
      },
    },
    {
      name: `Vitest with ${environment}`,
      tool: "vitest",
      async run() {
        const folder = project(`vitest ${environment}`, { from: "vitest" });
        await output(bin("vitest"), ["run", "--environment", environment], { cwd: folder });
        return JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
      },
    },
  ]),
  {
    name: "Jest with jsdom and --experimental-vm-modules",
    tool: "jest",
    async run() {
      const files = { "setup.cjs": jsdomSetup, "babel.config.json": "{}" };
      const folder = project("jest modules", { from: "jest", files });
      const args = ["--rootDir", ".", "--env", "jsdom", "--no-cache", "--setupFiles", "./setup.cjs"];
      await output(bin("jest"), args, { cwd: folder, env: { NODE_OPTIONS: "--experimental-vm-modules --no-warnings" } });
      return JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
    },
  },
];

/** What the README's lines cost on the wire, in kB: built by Vite 8, the wasm within the script and beside it. */
export async function wire() {
  const use = "sampleToken(new Float32Array([0.1, 2, 1.5]), {}, 0.5)";
  const lines = {
    default: `import init, { sampleToken } from "@quillmate/sampler"; init().then(() => console.log(${use}));`,
    slim: `import init, { sampleToken } from "@quillmate/sampler/slim"; ${urlOfWasm} init({ module_or_path: url }).then(() => console.log(${use}));`,
  };
  const sizes = {};
  for (const [entry, text] of Object.entries(lines)) {
    const folder = project(`wire ${entry}`, { files: { "page.js": text } });
    await viteBuild("vite8", folder);
    const assets = join(folder, "dist/assets");
    const files = readdirSync(assets).map((name) => readFileSync(join(assets, name)));
    const sum = (size) => files.reduce((all, bytes) => all + size(bytes), 0) / 1000;
    sizes[entry] = { files: files.length, plain: sum((bytes) => bytes.length), gzip: sum((bytes) => gzipSync(bytes, { level: 9 }).length), brotli: sum((bytes) => brotliCompressSync(bytes).length) };
  }
  return sizes;
}

// The line of README.md.
const { 1: jsdomSetup } = /`(Object\.assign\(globalThis, .*?)`/.exec(readFileSync(join(pkg, "README.md"), "utf8"));

const requiring = `
  const sampler = require("@quillmate/sampler");
  // Ready at once; awaiting init() does no harm.
  sampler.sampleToken(new Float32Array([1]), {}, 0);
  sampler.default().then(async () => {
    const { report } = await import("./report.js");
    console.log(JSON.stringify(report(sampler)));
  });
`;
