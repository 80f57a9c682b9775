// Errors that wasm-bindgen would throw without a code, or not at all: each is a SamplerError and changes nothing.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import init, * as sampler from "@quillmate/sampler";
import { model, refused, row, straight } from "./support.mjs";

const { Frame, Generator, SamplerError, logitsBuffer, sampleBatch, sampleToken, stepBatch, verify } = sampler;
const settings = { temperature: 0.8, topK: 40, topP: 0.95 };

/** Runs JavaScript in a process of its own, where `sampler` is the module before init(), and gives what it prints as JSON. */
function before(code) {
  const path = new URL("../../pkg/sampler.js", import.meta.url);
  const script = `import * as sampler from ${JSON.stringify(path.href)}; import { readFileSync } from "node:fs";
    const bytes = readFileSync(${JSON.stringify(fileURLToPath(new URL("sampler_bg.wasm", path)))});
    const refused = (call) => { try { call(); return "nothing"; } catch (e) { return e instanceof sampler.SamplerError ? e.code : String(e); } };
    const out = await (async () => { ${code} })(); console.log(JSON.stringify(out));`;
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" }));
}

test("any call before init() is refused, and init() works afterwards", () => {
  const calls = `
    const { default: init, initSync, Frame, Generator, SamplerError, ...functions } = sampler;
    const codes = {};
    for (const [name, call] of Object.entries(functions)) codes[name] = refused(() => call());
    codes.generator = refused(() => new Generator(null, [], "1"));
    codes.frame = refused(() => new Frame());
    for (const of of [Generator, Frame]) {
      for (const name of Object.getOwnPropertyNames(of)) if (typeof of[name] === "function" && !/^(__|prototype)/.test(name)) codes[of.name + "." + name] = refused(() => of[name]());
    }`;
  const { codes, after } = before(`${calls}
    await init({ module_or_path: bytes });
    return { codes, after: sampler.sampleToken(Float32Array.of(0, 1), { temperature: 0 }, 0) };`);
  assert.ok(Object.keys(codes).length >= 29, Object.keys(codes).join());
  for (const [name, code] of Object.entries(codes)) assert.equal(code, "not_initialized", name);
  assert.equal(after, 1);
  assert.deepEqual(
    before(`const first = refused(() => sampler.exp(1)); const a = sampler.initSync({ module: bytes }); const b = sampler.initSync({ module: bytes });
      return [first, a === b, a === (await sampler.default()), sampler.exp(0)];`),
    ["not_initialized", true, true, 1],
  );
  // A load that fails leaves it so, and the next one can succeed.
  assert.deepEqual(
    before(`const failed = await sampler.default({ module_or_path: new Uint8Array(4) }).then(() => "loaded", () => "failed");
      const between = refused(() => sampler.exp(0)); await sampler.default({ module_or_path: bytes }); return [failed, between, sampler.exp(0)];`),
    ["failed", "not_initialized", 1],
  );
});

test("a script that is not what the patches expect stops the build", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glue-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "sampler.js");
  const patched = readFileSync(new URL("../../pkg/sampler.js", import.meta.url), "utf8");
  // Patched already, and something else.
  for (const script of [patched, "let wasm;"]) {
    writeFileSync(file, script);
    const glue = fileURLToPath(new URL("../../scripts/pkg/glue.mjs", import.meta.url));
    const { status, stderr } = spawnSync(process.execPath, [glue, file], { encoding: "utf8" });
    assert.notEqual(status, 0);
    assert.match(stderr, /wasm-bindgen's script holds this 0 times, not [12]/);
    assert.equal(readFileSync(file, "utf8"), script);
  }
});

test("SamplerError is one class for errors of the wasm and of the script", () => {
  const run = straight(1);
  run.free();
  const errors = [
    refused("temperature_out_of_range", () => sampleToken(row([]), { temperature: -1 }, 0)),
    refused("freed", () => run.step()),
    sampleBatch(Float32Array.of(Number.NaN), 1, {}, [0.5])[0],
  ];
  for (const error of errors) {
    assert.ok(error instanceof SamplerError && error instanceof Error);
    assert.equal(Object.prototype.toString.call(error), "[object Error]");
    assert.equal(error.name, "SamplerError");
    assert.match(error.stack, /^SamplerError: /);
    assert.match(String(error), /^SamplerError: /);
    assert.ok(!Object.keys(error).includes("name"));
  }
  assert.equal(errors[0].value, -1);
  assert.deepEqual([errors[2].code, errors[2].index, errors[2].row], ["logits_nan", 0, 0]);
});

test("after free() every method and getter is refused, and free() does nothing", () => {
  const run = straight(2);
  const frame = Frame.dense(0, row([]));
  for (const [object, name] of [[run, "Generator"], [frame, "Frame"]]) {
    object.free();
    object.free();
    if (Symbol.dispose) object[Symbol.dispose]();
    let seen = 0;
    for (const [key, property] of Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object)))) {
      if (["constructor", "free", "__destroy_into_raw"].includes(key)) continue;
      const error = refused("freed", () => (property.get ? object[key] : object[key](row([]), {})));
      assert.equal(error.message, `this ${name} was freed`);
      seen += 1;
    }
    assert.ok(seen >= 10);
    refused("freed", () => JSON.stringify(object));
  }
  const other = straight(0);
  refused("freed", () => other.stepWithFrame(frame));
  assert.equal(refused("freed", () => stepBatch([other, run], () => [])).index, 1);
  assert.equal(other.position, 0);
  other.free();
});

test("a model cannot free its generator, alone or in a batch", () => {
  let run;
  const free = (tokens) => {
    refused("generator_busy", () => run.free());
    if (Symbol.dispose) refused("generator_busy", () => run[Symbol.dispose]());
    return row(tokens);
  };
  run = new Generator(free, [1, 2, 3], "42", settings);
  const token = run.step();
  const whole = straight(1);
  assert.equal(token, whole.tokens[0]);
  stepBatch([run], (contexts) => contexts.map(free));
  assert.equal(run.position, 2);
  // What frees it while an argument is read frees it after the call.
  const logits = { get ids() { run.free(); return [0]; }, logits: Float32Array.of(1), vocab: 1 };
  assert.equal(run.position, 2);
  try {
    run.stepWith(logits);
  } catch (error) {
    assert.ok(error instanceof SamplerError, String(error));
  }
  refused("freed", () => run.position);
  run.free();
  assert.equal(whole.position, 1);
  whole.free();
});

test("a Frame is made by its methods only", () => {
  refused("frame_constructor", () => new Frame());
  refused("frame_constructor", () => new Frame(new Uint8Array(4)));
});

test("what is no Frame is refused where one is wanted", () => {
  const run = straight(0);
  const frame = Frame.dense(0, row([1, 2, 3]));
  for (const bad of [frame.encode(), row([]), {}, null, undefined, 5, "QMLF", run, Object.create(null), { _share: 5 }, { _share: () => frame.encode() }]) {
    const error = refused("frame_type", () => run.stepWithFrame(bad));
    assert.equal(error.value, bad);
  }
  assert.match(refused("frame_type", () => run.stepWithFrame(frame.encode())).message, /is a Uint8Array/);
  assert.equal(run.position, 0);
  run.stepWithFrame(frame);
  // Neither was taken from its owner.
  assert.equal(frame.step, 0);
  assert.equal(run.position, 1);
  frame.free();
  run.free();
});

test("methods and getters on another this", () => {
  const run = straight(1);
  const frame = Frame.dense(0, row([]));
  for (const [of, others] of [[Generator, [frame]], [Frame, [run]]]) {
    for (const other of [...others, {}, null, undefined, 5, of.prototype, Object.create(of.prototype)]) {
      for (const [key, property] of Object.entries(Object.getOwnPropertyDescriptors(of.prototype))) {
        if (key === "constructor") continue;
        refused("receiver_type", () => (property.get ?? property.value).call(other));
      }
    }
  }
  // Through a proxy, as the stores of some page frameworks make it, it is itself: and freed once.
  const proxy = new Proxy(run, {});
  assert.equal(proxy.position, 1);
  proxy.step();
  assert.equal(run.position, 2);
  proxy.free();
  run.free();
  refused("freed", () => proxy.step());
  frame.free();
});

test("arrays whose memory is gone", () => {
  const gone = (array) => {
    structuredClone(array, { transfer: [array.buffer] });
    return array;
  };
  const run = straight(0);
  const f32 = () => gone(Float32Array.of(1, 2));
  const [f64, u32, big, bytes] = [gone(Float64Array.of(1)), gone(Uint32Array.of(1)), gone(BigInt64Array.of(1n)), gone(Uint8Array.of(1))];
  for (const call of [
    () => sampleToken(f32(), {}, 0),
    () => sampleToken(f64, {}, 0),
    () => sampleToken(Object.defineProperty(f32(), "length", { value: 2 }), {}, 0),
    () => run.stepWith(f32()),
    () => run.stepWithDrafts([f32()], []),
    () => run.decision(f64),
    () => Frame.dense(0, f32()),
    () => Frame.decode(bytes),
    () => new Generator(null, u32, "1"),
    () => new Generator(null, big, "1"),
    () => Generator.fromState(null, { ...run.state(), prompt: u32 }),
    () => sampleBatch(f64, 1, {}, [0.5]),
    () => sampleBatch(row([]), 64, {}, f64),
    () => sampler.speculativeStep(f64, f64, 0, 0.5, 0.5),
    () => sampleToken({ ids: u32, logits: Float32Array.of(1), vocab: 3 }, { topK: 1 }, 0.5),
    () => verify({ start: run.state(), frames: [bytes] }, { tokens: [1], state: run.state() }),
  ]) {
    refused("array_detached", call);
  }
  // An empty array is not detached.
  refused("logits_empty", () => sampleToken(new Float32Array(0), {}, 0));
  new Generator(null, new Uint32Array(0), "1").free();
  assert.equal(run.position, 0);
  run.free();
});

test("views of the lent buffer from before memory grew", async () => {
  const { memory } = await init();
  const old = logitsBuffer(4);
  const part = old.subarray(1);
  const own = new Float32Array(old.buffer, old.byteOffset, 2);
  // A row too large for the memory there is.
  logitsBuffer(Math.max(3e6, memory.buffer.byteLength / 4));
  for (const view of [old, part, own]) {
    assert.equal(view.length, 0);
    refused("logits_buffer_detached", () => sampleToken(view, {}, 0));
    refused("logits_buffer_detached", () => Frame.dense(0, view));
  }
  // Wasm memory that is not the logits buffer.
  const buffer = memory.buffer;
  const unlent = new Float32Array(buffer, 0, 4);
  logitsBuffer(buffer.byteLength / 4);
  refused("logits_buffer_detached", () => sampleToken(unlent, {}, 0));
});

test("JSON.stringify gives the state of a run and the bytes of a frame", () => {
  const run = straight(3);
  assert.equal(JSON.stringify(run), JSON.stringify(run.state()));
  const resumed = Generator.fromState(model, JSON.parse(JSON.stringify({ run })).run);
  assert.deepEqual(resumed.state(), run.state());
  const frame = Frame.sparse(3, row([]), 5);
  const [text] = JSON.parse(JSON.stringify([frame]));
  const read = Frame.decode(Uint8Array.from(Buffer.from(text, "base64")));
  assert.equal(read.checksum, frame.checksum);
  for (const thing of [run, resumed, frame, read]) thing.free();
});

test("what would copy an object's properties is refused, what only looks is not", () => {
  const run = straight(1);
  const frame = Frame.dense(0, row([]));
  const { port1 } = new MessageChannel();
  for (const object of [run, frame]) {
    const error = refused("not_cloneable", () => structuredClone(object));
    assert.match(error.message, object === run ? /state\(\)/ : /encode\(\)/);
    refused("not_cloneable", () => structuredClone({ deep: [object] }));
    refused("not_cloneable", () => port1.postMessage(object));
    refused("not_cloneable", () => ({ ...object }));
    refused("not_cloneable", () => Object.assign({}, object));
    assert.equal(inspect(object), `${object.constructor.name} { _wasm: [Getter] }`);
    assert.deepEqual(object, object);
    assert.deepEqual(Object.keys(object), ["_wasm"]);
    assert.ok(`${object}`);
  }
  // Two runs are not equal because nothing can be seen of them.
  const other = straight(1);
  refused("not_cloneable", () => assert.notDeepEqual(run, other));
  port1.close();
  assert.equal(run.position, 1);
  for (const thing of [run, frame, other]) thing.free();
});

test("an object that gives out another's handle is no Generator and no Frame, and that other stays its owner's", () => {
  const generators = [1, 2].map((seed) => new Generator(model, [seed], seed, {}));
  const frame = Frame.dense(0, row([1]));
  for (const fake of [{ _share: () => generators[1] }, { _share: () => frame }, { _share: () => 5 }, new Proxy({}, { get: () => () => generators[1] }), new Proxy({}, { get: (_, key) => { throw key; } })]) {
    assert.equal(refused("generators_type", () => stepBatch([generators[0], fake])).index, 1);
    refused("frame_type", () => generators[0].stepWithFrame(fake));
  }
  refused("generators_type", () => stepBatch([frame]));
  refused("frame_type", () => generators[0].stepWithFrame(generators[1]));
  // A method set on the object says nothing either.
  generators[0]._share = () => generators[1];
  frame._share = () => Frame.dense(7, row([2]));
  assert.equal(stepBatch([generators[0]]).length, 1);
  assert.deepEqual(generators.map((generator) => generator.position), [1, 0]);
  const other = new Generator(null, [2], 2, {});
  assert.equal(other.stepWithFrame(frame), generators[1].stepWith(row([1])));
  for (const thing of [...generators, other, frame]) thing.free();
  assert.equal(refused("freed", () => stepBatch([other])).index, 0);
});
