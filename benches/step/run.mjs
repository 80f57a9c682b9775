// run.mjs SERVER MODEL WWW NATIVE: where the time of a story's token goes, in the real page on the real server.
//
// Three measurements: the page writes a passage, traced by Chromium (what its threads do in a token's time); the same run's
// frames are fetched again (HTTP, and reading the store) and sampled over and over in the same page (decoding, sampling); NATIVE, the peers' results, has the model's own step and what the server does with its row.
// Prints a table, and on standard output one JSON object.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "../peers/node_modules/playwright-core/index.mjs";

const [program, model, www, nativeFile] = process.argv.slice(2);
const TOKENS = 120;

const probe = createServer();
await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
const { port } = probe.address();
await new Promise((resolve) => probe.close(resolve));
const data = mkdtempSync(join(tmpdir(), "quillmate-step-"));
const url = `http://127.0.0.1:${port}/`;
const flags = ["--model", model, "--port", String(port), "--data", data, "--www", www, "--threads", "2", "--log", "error"];
// Without drafts: a step is a step.
const server = spawn(program, [...flags, "--drafts", "0"], { stdio: "ignore" });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});

/** Milliseconds that the renderer's threads spent in events of these names; one within another counts once. */
function spent(events, names) {
  const renderers = new Set(
    events.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => one.pid),
  );
  const ends = new Map();
  let sum = 0;
  const relevant = events.filter((one) => one.ph === "X" && renderers.has(one.pid) && names.includes(one.name));
  for (const { pid, tid, ts, dur } of relevant.toSorted((a, b) => a.ts - b.ts)) {
    const thread = `${pid} ${tid}`;
    if (ts < (ends.get(thread) ?? 0)) continue;
    ends.set(thread, ts + dur);
    sum += dur / 1000;
  }
  return sum;
}

async function traced(page, work) {
  const session = await browser.newBrowserCDPSession();
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  const done = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["devtools.timeline", "__metadata"] },
  });
  await work();
  await session.send("Tracing.end");
  await done;
  return events;
}

/** In the page: decode and sample, each over and over, with the package's own files. */
async function sampling({ frames, start }) {
  const { default: init, Frame, Generator } = await import("/bench/index.js");
  await init();
  const bytes = frames.map((text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
  const times = { decode: [], sample: [] };
  for (let round = 0; round < 12; round++) {
    let begin = performance.now();
    const decoded = bytes.map((one) => Frame.decode(one));
    times.decode.push((performance.now() - begin) / bytes.length);
    const generator = Generator.fromState(null, start);
    begin = performance.now();
    for (const frame of decoded) generator.stepWithFrame(frame);
    times.sample.push((performance.now() - begin) / bytes.length);
    generator.free();
    for (const frame of decoded) frame.free();
  }
  const middle = (all) => all.toSorted((a, b) => a - b)[all.length >> 1];
  return {
    decode: middle(times.decode),
    sample: middle(times.sample),
    bytes: bytes.reduce((sum, one) => sum + one.length, 0) / bytes.length,
  };
}

/** In the page: the median time, in milliseconds, to download the messages of the finished run again. */
async function medianDownload(id) {
  const times = [];
  for (let round = 0; round < 9; round++) {
    const begin = performance.now();
    await (await fetch(`/api/runs/${id}/stream?from=0`)).arrayBuffer();
    times.push(performance.now() - begin);
  }
  return times.toSorted((a, b) => a - b)[4];
}

async function one(name, settings) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  // The package's files under an address of the page's own.
  await context.route("**/bench/*", (route) => {
    const file = new URL(route.request().url()).pathname.split("/").at(-1);
    const type = file.endsWith(".wasm") ? "application/wasm" : "text/javascript";
    return route.fulfill({ body: readFileSync(join(import.meta.dirname, "../../pkg", file)), contentType: type });
  });
  const page = await context.newPage();
  await page.goto(url);
  const generate = page.locator("#generate");
  const idle = () =>
    page.waitForFunction(() => document.querySelector("#generate")?.disabled === false, null, { timeout: 120_000 });
  await generate.waitFor();
  await idle();
  const fields = { Temperature: settings.temperature, "Top-k": settings.top_k, "Top-p": settings.top_p, Seed: 7, Length: TOKENS };
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(String(value));
  const paper = page.getByRole("textbox", { name: "Your story" });
  const writing = page.waitForResponse(
    (response) => response.url().endsWith("/api/runs") && response.request().method() === "POST",
  );
  let seconds = 0;
  let id = "";
  const events = await traced(page, async () => {
    await paper.focus();
    await page.keyboard.press("Control+End");
    await page.keyboard.press("Control+Enter");
    id = (await (await writing).json()).id;
    // The server's own end, and then the page's.
    const first = Date.now();
    await page.evaluate(async (id) => void (await (await fetch(`/api/runs/${id}/stream?from=0`)).arrayBuffer()), id);
    seconds = (Date.now() - first) / 1000;
    await idle();
  });
  const run = await (await fetch(`${url}api/runs/${id}`)).json();
  const record = await (await fetch(`${url}api/runs/${id}/record`)).json();
  const tokens = run.tokens.length;
  const http = (await page.evaluate(medianDownload, id)) / tokens;
  const sampled = await page.evaluate(sampling, { frames: record.frames, start: record.start });
  await context.close();
  const script = spent(events, ["FunctionCall", "EvaluateScript", "RunMicrotasks", "TimerFire"]);
  const layout = spent(events, ["UpdateLayoutTree", "Layout"]);
  const paint = spent(events, ["PrePaint", "Paint", "Layerize", "Commit", "RasterTask", "DecodeImage"]);
  return {
    name,
    tokens,
    wall: (seconds * 1000) / tokens,
    http,
    ...sampled,
    script: script / tokens,
    layout: layout / tokens,
    paint: paint / tokens,
  };
}

try {
  for (;;) {
    const health = await fetch(`${url}api/health`).then(
      (answer) => answer.json(),
      () => null,
    );
    if (health?.status === "ready") break;
    await new Promise((later) => setTimeout(later, 100));
  }
  const native = JSON.parse(readFileSync(nativeFile, "utf8"));
  const results = [];
  for (const [name, settings] of [
    ["k 50, p .95", { temperature: 0.8, top_k: 50, top_p: 0.95 }],
    ["p .9", { temperature: 0.8, top_k: 0, top_p: 0.9 }],
  ]) {
    const page = await one(name, settings);
    const own = native.find((row) => row.setting === "step of the model" && row.threads === 2);
    const step = own?.parts?.find((row) => row.setting === name);
    const percent = ((page.decode + page.sample) / own.ours_ms) * 100;
    results.push({ where: "step", ...page, model: own.ours_ms, server_sample: step.sample_ms, frame: step.frame_ms, percent });
  }
  const line = (label, of, digits = 3) =>
    console.error(`| ${label} | ${results.map((one) => of(one).toFixed(digits)).join(" | ")} |`);
  console.error(`| milliseconds a token | ${results.map((one) => one.name).join(" | ")} |\n|---|---|---|`);
  line("model, one step", (one) => one.model, 1);
  line("server: sample", (one) => one.server_sample);
  line("server: make and encode the frame", (one) => one.frame);
  line("HTTP on loopback, and reading the store", (one) => one.http);
  line("page: decode the frame (wasm)", (one) => one.decode);
  line("page: sample (wasm)", (one) => one.sample);
  line("page: its scripts (main thread and worker)", (one) => one.script);
  line("page: style and layout", (one) => one.layout);
  line("page: paint and raster", (one) => one.paint);
  line("all, as the stream came", (one) => one.wall, 1);
  line("bytes of a frame", (one) => one.bytes, 0);
  line("decode + sample, % of the model", (one) => one.percent, 2);
  console.log(JSON.stringify(results, null, 2));
} finally {
  await browser.close();
  server.kill();
  rmSync(data, { recursive: true, force: true });
}
