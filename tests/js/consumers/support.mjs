// What the consumers share: the packed tarball, a project it is installed in, Chromium, servers, and the check of a report.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const here = import.meta.dirname;
const root = join(here, "../../..");
export const pkg = join(root, "pkg");
// Below this folder, so that a project finds the tools in its parent's node_modules, as in a workspace; each run has its own.
const work = join(here, "work", String(process.pid));

// The vectors. A row travels as the text of a script, where -Infinity has a name.
const { sample } = JSON.parse(readFileSync(join(root, "tests/vectors/contract.json"), "utf8"));
const casesScript = `export const cases = [\n${sample
  .map(({ logits, temperature, top_k, top_p, draws }) => {
    const settings = JSON.stringify({ temperature, topK: top_k, topP: top_p });
    return `  { logits: [${logits.join(", ")}], settings: ${settings}, draws: [${draws.map(([u]) => u).join(", ")}] },\n`;
  })
  .join("")}];\n`;

/** Holds what a consumer reported against the vectors. */
export function check(report) {
  assert.equal(report?.failed, undefined, report?.failed);
  assert.ok(sample.length > 100);
  assert.equal(report.tokens.length, sample.length);
  let draws = 0;
  for (const [i, { draws: expected }] of sample.entries()) {
    assert.deepEqual(report.tokens[i], expected.map(([, token]) => token), `case ${i}`);
    draws += expected.length;
  }
  assert.ok(draws > 1000);
  assert.deepEqual(report.frame, [0.5, 2, 1.25, -1]);
  assert.deepEqual(report.state, {
    contract: "quillmate-v1",
    format: 1,
    seed: "42",
    step: 1,
    prompt: [1, 2],
    tokens: report.state.tokens,
    settings: { temperature: 0.8, top_k: 0, top_p: 1 },
  });
  assert.equal(report.state.tokens.length, 1);
  assert.deepEqual(report.refused, { error: true, name: "SamplerError", code: "temperature_out_of_range" });
  assert.deepEqual(report.malformed, { error: true, name: "SamplerError", code: "seed_malformed" });
  for (const seed of report.seeds) assert.match(seed, /^(0|[1-9]\d*)$/);
  assert.notEqual(report.seeds[0], report.seeds[1]);
}

let tarball;
/** Packs the package once; the names of its files. */
export function pack() {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", work], { cwd: pkg, encoding: "utf8" }));
  tarball = join(work, packed.filename);
  return packed.files.map(({ path }) => path).sort();
}
export const unpack = () => rmSync(work, { recursive: true, force: true });

/** A project: the shared scripts, those of projects/FROM if there are any, and the tarball in its node_modules. */
export function project(name, { files = {}, type = "module", from = name } = {}) {
  const folder = join(work, name.replaceAll(/[^\w.]+/g, "-"));
  rmSync(folder, { recursive: true, force: true });
  const installed = join(folder, "node_modules/@quillmate/sampler");
  mkdirSync(installed, { recursive: true });
  // The package has no dependencies and no install script: to unpack it is what npm does, 1 s later.
  execFileSync("tar", ["xzf", tarball, "-C", installed, "--strip-components=1"]);
  cpSync(join(here, "projects/shared"), folder, { recursive: true });
  const own = join(here, "projects", from);
  if (existsSync(own)) cpSync(own, folder, { recursive: true });
  writeFileSync(join(folder, "cases.js"), casesScript);
  for (const [path, text] of Object.entries({ "package.json": JSON.stringify({ private: true, type }), ...files })) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

/** The same by npm itself. */
export function npmInstall(name) {
  const folder = project(name);
  rmSync(join(folder, "node_modules"), { recursive: true });
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], { cwd: folder, stdio: "pipe" });
  return folder;
}

/** The installed version of a tool, or null. */
export function version(tool) {
  try {
    return JSON.parse(readFileSync(join(here, "node_modules", tool, "package.json"), "utf8")).version;
  } catch {
    return null;
  }
}
export const bin = (name) => join(here, "node_modules/.bin", name);
/** A tool as a module: some are installed under more than one version. */
export const tool = (name) => import(name);

/** No file of a build may name the folder it was made in. */
export function namesNoFolder(dist) {
  const paths = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.ok(paths.length > 0, "nothing was built");
  for (const { parentPath, name } of paths) {
    if (name.endsWith(".map")) continue;
    const bytes = readFileSync(join(parentPath, name), "latin1");
    assert.ok(!bytes.includes(work) && !bytes.includes(`${root}/`), `${name} names the folder it was built in`);
  }
}

/** The files of a build, moved to where neither its project nor a node_modules is near; their new folder. */
export function moved(dist) {
  namesNoFolder(dist);
  const folder = join(work, "moved");
  rmSync(folder, { recursive: true, force: true });
  cpSync(dist, folder, { recursive: true });
  return folder;
}

const run = promisify(execFile);
/** Runs a program to its end; its standard output. */
export async function output(command, args, { cwd, env = {} } = {}) {
  try {
    const options = { cwd, env: { ...process.env, NODE_ENV: undefined, NODE_TEST_CONTEXT: undefined, ...env }, maxBuffer: 1 << 26, timeout: 900_000 };
    return (await run(command, args, options)).stdout;
  } catch (error) {
    assert.fail(`${command} ${args.join(" ")}\n${error.message}\n${error.stdout ?? ""}\n${error.stderr ?? ""}`);
  }
}
/** Runs a program whose last line is a report. */
export const reported = async (...command) => JSON.parse((await output(...command)).trim().split("\n").at(-1));

/** Starts a server, gives what `use` makes of its address, and stops it. `ready` finds the address in what it prints, if it does. */
export async function serving(command, args, { cwd, env = {}, ready }, use) {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, NODE_ENV: undefined, NODE_TEST_CONTEXT: undefined, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let said = "";
  try {
    const address = await new Promise((resolve, reject) => {
      const hear = (text) => {
        said += text;
        const found = ready?.exec(said.replaceAll(/\u001b\[[\d;]*m/g, ""));
        if (found) resolve(found[1]);
      };
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", hear);
      if (!ready) child.on("spawn", resolve);
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`${command} ended with ${code}:\n${said}`)));
      setTimeout(() => reject(new Error(`${command} is not ready:\n${said}`)), 300_000).unref();
    });
    return await use(address);
  } catch (error) {
    error.message += `\n${said}`;
    throw error;
  } finally {
    // It and what it started.
    child.removeAllListeners("exit");
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {}
  }
}

const types = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
/** Serves a folder while `use` has its address. */
export async function served(folder, use, headers = {}) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname.replace(/\/$/, "/index.html");
    try {
      const bytes = readFileSync(join(folder, path));
      response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream", ...headers }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

let browser;
/** What the page at this address reports; `globalThis.report` there. */
export async function inChromium(address) {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.stack));
    page.on("console", (message) => message.type() === "error" && !message.location().url.endsWith("/favicon.ico") && errors.push(message.text()));
    // A dev server may compile all of the page first.
    await page.goto(address, { timeout: 240_000 });
    await page
      .waitForFunction(() => globalThis.report, undefined, { timeout: 120_000 })
      .catch((error) => assert.fail(`${error.message}\n${errors.join("\n")}`));
    const report = await page.evaluate(() => globalThis.report);
    assert.deepEqual(errors, []);
    return report;
  } finally {
    await context.close();
  }
}
export const chromiumVersion = () => browser?.version() ?? "not started";
export const closeChromium = () => browser?.close();
