// The packed tarball, installed as a user installs it: in Node, in a Vite page and in a webpack page, both in Chromium.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { build } from "vite";
import webpack from "webpack";

const here = fileURLToPath(new URL(".", import.meta.url));
const pkg = fileURLToPath(new URL("../../../pkg", import.meta.url));
const temp = mkdtempSync(join(tmpdir(), "consumers-"));
const { sample } = JSON.parse(readFileSync(new URL("../../vectors/contract.json", import.meta.url), "utf8"));
// Finite only: these travel as JSON.
const cases = sample
  .filter(({ logits }) => logits.every(Number.isFinite))
  .map(({ logits, temperature, top_k, top_p, draws }) => ({ logits, settings: { temperature, topK: top_k, topP: top_p }, draws }));

let tarball;
let files;
before(() => {
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", temp], { cwd: pkg, encoding: "utf8" }));
  tarball = join(temp, packed.filename);
  files = packed.files.map(({ path }) => path).sort();
});
after(() => rmSync(temp, { recursive: true, force: true }));

/** A copy of a consumer with the tarball installed in it. */
function install(name) {
  const folder = join(temp, name);
  cpSync(join(here, name), folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], { cwd: folder, stdio: "pipe" });
  return folder;
}

test("the tarball holds what it should, the wasm too", () => {
  assert.deepEqual(files, ["README.md", "node.js", "package.json", "sampler.d.ts", "sampler.js", "sampler_bg.wasm"]);
});

test("Node", () => {
  const folder = install("node");
  const { logits, settings, draws } = cases[0];
  const [u, token] = draws[0];
  const out = execFileSync(process.execPath, ["main.mjs", JSON.stringify({ logits, settings, u })], { cwd: folder, encoding: "utf8" });
  assert.deepEqual(JSON.parse(out), { first: token, second: token });
});

test("strict TypeScript, resolved as Node does and as bundlers do", () => {
  const folder = install("node");
  cpSync(join(here, "../types"), folder, { recursive: true });
  const tsc = join(here, "../node_modules/.bin/tsc");
  for (const resolution of [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]]) {
    try {
      execFileSync(tsc, ["-p", ".", ...resolution], { cwd: folder, encoding: "utf8" });
    } catch (error) {
      assert.fail(`${resolution.join(" ")}\n${error.stdout}`);
    }
  }
});

const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
/** Serves a folder, opens its page in Chromium and runs every case there. */
async function inChromium(folder) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname.replace(/\/$/, "/index.html");
    try {
      const bytes = readFileSync(join(folder, path));
      response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  try {
    const page = await browser.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => window.sample, undefined, { timeout: 20_000 }).catch((error) => assert.fail(`${error}\n${errors.join("\n")}`));
    const tokens = await page.evaluate((all) => all.map(({ logits, settings, draws }) => draws.map(([u]) => window.sample(logits, settings, u))), cases);
    assert.ok(tokens.length > 100);
    for (const [i, { draws }] of cases.entries()) {
      assert.deepEqual(tokens[i], draws.map(([, token]) => token), `case ${i}`);
    }
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
    server.close();
  }
}

/** Exactly one wasm, and it is the package's. */
function oneWasm(folder) {
  const emitted = readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(".wasm"));
  assert.equal(emitted.length, 1, `emitted: ${emitted.join(", ")}`);
  assert.deepEqual(readFileSync(join(folder, emitted[0])), readFileSync(join(pkg, "sampler_bg.wasm")));
}

test("a Vite page", async () => {
  const folder = install("vite");
  await build({ root: folder, logLevel: "warn", configFile: false, build: { target: "es2022", assetsInlineLimit: 0 } });
  oneWasm(join(folder, "dist"));
  await inChromium(join(folder, "dist"));
});

test("a webpack page", async () => {
  const folder = install("webpack");
  const dist = join(folder, "dist");
  const stats = await new Promise((resolve, reject) => {
    // (Its hint on the size of assets is no finding.)
    webpack({ mode: "production", performance: false, context: folder, entry: "./main.js", output: { path: dist, filename: "main.js" } }, (error, result) =>
      error ? reject(error) : resolve(result),
    );
  });
  assert.ok(!stats.hasErrors() && !stats.hasWarnings(), stats.toString());
  cpSync(join(folder, "index.html"), join(dist, "index.html"));
  oneWasm(dist);
  await inChromium(dist);
});
