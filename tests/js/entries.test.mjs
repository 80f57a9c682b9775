// The package's entries: what `init` and `initSync` take, what they refuse, and that all share one wasm.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
/** Runs a module that starts with nothing loaded; what it prints, as JSON. Entries are named by their files: Node would take node.js. */
async function fresh(code) {
  const prelude = `
    import { readFileSync } from "node:fs";
    import { createServer } from "node:http";
    import { createRequire } from "node:module";
    const pkg = ${JSON.stringify(new URL("../../pkg/", import.meta.url))};
    const wasm = readFileSync(new URL("sampler_bg.wasm", pkg));
    const entry = (name) => import(new URL(name, pkg));
    const { SamplerError } = await entry("sampler.js");
    const refused = async (call) => {
      try { await call(); return "taken"; } catch (error) { return [error instanceof SamplerError ? "SamplerError" : error.name, error.code]; }
    };
    const print = (value) => console.log(JSON.stringify(value));
  `;
  const { stdout, stderr } = await run(process.execPath, ["--input-type=module", "-e", prelude + code]);
  assert.equal(stderr, "");
  return JSON.parse(stdout);
}
const refusal = (code) => ["SamplerError", code];

test("Node: ready at once, and init() gives what is loaded", async () => {
  const code = `
    const { default: init, initSync, uniform } = await entry("node.js");
    print([uniform("42", 0), (await init()) === initSync(), (await init({})) === (await init({ module_or_path: "/nowhere" }))]);
  `;
  assert.deepEqual(await fresh(code), [0.7415648787718233, true, true]);
});

test("elsewhere: loaded by init(), once", async () => {
  const code = `
    const { default: init, uniform } = await entry("index.js");
    const before = await refused(() => uniform("42", 0));
    const [first, second] = await Promise.all([init(), init()]);
    print([before, first === second, first === (await init()), uniform("42", 0)]);
  `;
  assert.deepEqual(await fresh(code), [refusal("not_initialized"), true, true, 0.7415648787718233]);
});

test("elsewhere: loaded by initSync()", async () => {
  const code = `
    const { default: init, initSync, uniform } = await entry("index.js");
    const loaded = initSync();
    print([loaded === initSync(), loaded === (await init()), uniform("42", 0)]);
  `;
  assert.deepEqual(await fresh(code), [true, true, 0.7415648787718233]);
});

for (const [name, given] of [["index", "undefined"], ["slim", "{ [key]: wasm }"]]) {
  test(`${name}: initSync() while init() is under way loads the one wasm, under which all objects stay`, async () => {
    const code = `
      const { default: init, initSync, Generator } = await entry("${name}.js");
      const options = (key) => (${given});
      const pending = init(options("module_or_path"));
      const first = initSync(options("module"));
      const a = new Generator(null, [111], 1, {});
      const second = await pending;
      const b = new Generator(null, [222], 2, {});
      print([first === second, first === initSync(options("module")), first === (await init(options("module_or_path"))), [...a.prompt], [...b.prompt]]);
    `;
    assert.deepEqual(await fresh(code), [true, true, true, [111], [222]]);
  });
}

test("slim and the default entry share one wasm, as modules and as CommonJS", async () => {
  const code = `
    const both = async (entry) => {
      const [index, slim] = [await entry("index"), await entry("slim")];
      await slim.default({ module_or_path: wasm });
      return [index.Frame === slim.Frame, index.uniform("42", 0)];
    };
    const require = createRequire(pkg);
    print([await both((name) => entry(name + ".js")), await both((name) => require("./" + name + ".cjs"))]);
  `;
  assert.deepEqual(await fresh(code), Array(2).fill([true, 0.7415648787718233]));
});

for (const [name, given] of Object.entries({
  "a module": "new WebAssembly.Module(wasm)",
  "a promise of a module": "WebAssembly.compile(wasm)",
  bytes: "wasm",
  "an ArrayBuffer": "wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.length)",
  "a response": 'new Response(wasm, { headers: { "content-type": "application/wasm" } })',
  "a promise of a response": 'Promise.resolve(new Response(wasm, { headers: { "content-type": "application/wasm" } }))',
  "a URL": "new URL(address)",
  "an address": "address",
})) {
  test(`slim takes ${name}`, async () => {
    const code = `
      const server = createServer((_, response) => response.setHeader("content-type", "application/wasm").end(wasm)).listen(0, "127.0.0.1");
      await new Promise((resolve) => server.on("listening", resolve));
      const address = "http://127.0.0.1:" + server.address().port + "/sampler_bg.wasm";
      const { default: init, uniform } = await entry("slim.js");
      await init({ module_or_path: ${given} });
      server.closeAllConnections();
      server.close();
      print(uniform("42", 0));
    `;
    assert.equal(await fresh(code), 0.7415648787718233);
  });
}

test("what no wasm comes of is refused by its code, and the next call loads", async () => {
  const code = `
    const { default: init, initSync, uniform } = await entry("slim.js");
    const answers = [];
    const shared = new SharedArrayBuffer(wasm.length);
    new Uint8Array(shared).set(wasm);
    const noBytes = [shared, new Uint8Array(shared), new DataView(wasm.buffer, wasm.byteOffset, wasm.length)];
    for (const given of [5, null, {}, [], true, new Map(), Promise.resolve(undefined), ...noBytes]) answers.push(await refused(() => init({ module_or_path: given })));
    for (const given of [5, null, {}, "/sampler_bg.wasm", ...noBytes]) answers.push(await refused(() => initSync({ module: given })));
    const missing = [await refused(() => init()), await refused(() => init({})), await refused(() => initSync())];
    const unavailable = [
      await refused(() => init({ module_or_path: new Response("", { status: 404 }) })),
      await refused(() => init({ module_or_path: "http://127.0.0.1:1/sampler_bg.wasm" })),
    ];
    const html = (await refused(() => init({ module_or_path: new TextEncoder().encode("<!doctype html>") })))[0];
    await init({ module_or_path: wasm });
    print({ answers, missing, unavailable, html, value: uniform("42", 0) });
  `;
  const { answers, missing, unavailable, html, value } = await fresh(code);
  assert.deepEqual(answers, Array(17).fill(refusal("field_type")));
  assert.deepEqual(missing, Array(3).fill(refusal("wasm_missing")));
  assert.deepEqual(unavailable, Array(2).fill(refusal("wasm_unavailable")));
  assert.equal(html, "CompileError");
  assert.equal(value, 0.7415648787718233);
});

for (const entry of ["@quillmate/sampler", "@quillmate/sampler/slim"]) {
  for (const load of ["import", "require", "require of the CommonJS form"]) {
    test(`${load} of ${entry}: randomSeed() in Node without a global crypto, as version 18 is`, async () => {
      const given = {
        import: `await import(${JSON.stringify(import.meta.resolve(entry))})`,
        require: `require("${entry}")`,
        // Which versions before 20.19 take.
        "require of the CommonJS form": `createRequire(pkg)("./${entry.endsWith("slim") ? "slim-node" : "node"}.cjs")`,
      }[load];
      const code = `
        delete globalThis.crypto;
        const require = createRequire(${JSON.stringify(import.meta.url)});
        const { initSync, randomSeed } = ${given};
        initSync(${entry.endsWith("slim") ? "{ module: wasm }" : ""});
        print([typeof crypto, randomSeed(), randomSeed()]);
      `;
      const [global, ...seeds] = await fresh(code);
      assert.equal(global, "undefined");
      for (const seed of seeds) assert.ok(/^\d+$/.test(seed) && BigInt(seed) < 2n ** 64n, seed);
      assert.notEqual(seeds[0], seeds[1]);
    });
  }
}

for (const name of ["node", "index", "slim"]) {
  test(`${name}.js: options that are not known are refused, loaded or not`, async () => {
    const code = `
      const { default: init, initSync } = await entry("${name}.js");
      const all = async () => {
        const answers = [];
        for (const call of [init, initSync]) {
          for (const options of [{ moduleOrPath: wasm }, { module_or_path: wasm, module: wasm, x: 1 }, { wasm }]) answers.push(await refused(() => call(options)));
          for (const options of [null, "/x.wasm", 5, true, [], wasm, new URL("file:///x"), Promise.resolve({}), new Response(""), new WebAssembly.Module(wasm)]) {
            answers.push(await refused(() => call(options)));
          }
        }
        return answers;
      };
      const before = await all();
      await init({ module_or_path: wasm });
      print([before, await all()]);
    `;
    const expected = [...Array(3).fill(refusal("field_unknown")), ...Array(10).fill(refusal("field_type"))];
    for (const answers of await fresh(code)) assert.deepEqual(answers, [...expected, ...expected]);
  });
}
