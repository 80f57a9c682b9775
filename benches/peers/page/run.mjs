// run.mjs ROWS: page.mjs in headless Chromium. The results are a JSON list on standard output.
import { build } from "esbuild";
import { createReadStream, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { chromium } from "playwright-core";

const here = import.meta.dirname;
const [rows] = process.argv.slice(2);
// What transformers.js and the package take in Node alone.
const emptyInBrowser = {
  name: "empty-in-browser",
  setup(build) {
    build.onResolve({ filter: /^(node:.*|fs|path|url|sharp|onnxruntime-node)$/ }, ({ path }) => ({ path, namespace: "empty" }));
    build.onLoad({ filter: /.*/, namespace: "empty" }, ({ path }) => ({
      contents: path === "node:module" ? "export const createRequire = () => () => ({});" : "module.exports = {};",
    }));
  },
};
const site = mkdtempSync(join(tmpdir(), "quillmate-peers-"));
await build({
  entryPoints: [join(here, "page.mjs")],
  outfile: join(site, "page.js"),
  bundle: true,
  format: "esm",
  platform: "browser",
  minify: true,
  logLevel: "error",
  banner: { js: "globalThis.process = { versions: {}, env: {} };" },
  plugins: [emptyInBrowser],
});

const folders = {
  "/onnx/": join(here, "../node_modules/onnxruntime-web/dist"),
  "/rows/": rows,
};
const types = { js: "text/javascript", mjs: "text/javascript", wasm: "application/wasm", html: "text/html" };
const server = createServer((request, response) => {
  // Isolated, so that the page's clock has 5 µs and not 100.
  const head = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
  const path = new URL(request.url, "http://localhost").pathname;
  const folder = Object.keys(folders).find((start) => path.startsWith(start));
  const file = join(folder === undefined ? site : folders[folder], basename(path));
  if (path === "/") {
    response.writeHead(200, { ...head, "Content-Type": "text/html" });
    response.end('<!doctype html><title>peers</title><script type="module" src="/page.js"></script>');
  } else if (existsSync(file)) {
    response.writeHead(200, { ...head, "Content-Type": types[file.split(".").at(-1)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  } else {
    response.writeHead(404, head);
    response.end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.error(message.text()));
  page.on("pageerror", (error) => console.error(String(error)));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => "all" in globalThis);
  const results = await page.evaluate(() => globalThis.all());
  console.log(JSON.stringify(results, null, 2));
} finally {
  await browser.close();
  server.close();
  rmSync(site, { recursive: true });
}
