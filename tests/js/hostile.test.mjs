// Hostile arguments: each throws an Error, and the package still works.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { distribution, Frame, Generator, mosaicDecision, sampleBatch, sampleToken, speculativeStep, stepBatch, uniform, verify } from "@quillmate/sampler";
import { model, row, straight } from "./support.mjs";

const state = (() => {
  const run = straight(3);
  const plain = run.state();
  run.free();
  return plain;
})();

/** An Error of ours, or of the hostile getter: no trap of the wasm, which would leave it unusable. */
function survives(call) {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof Error, `thrown: ${String(error)}`);
    assert.ok(!(error instanceof WebAssembly.RuntimeError), `the wasm trapped: ${error.stack}`);
    return error;
  }
  return undefined;
}
/** The same, and it must have thrown. */
const fails = (call) => assert.ok(survives(call), "nothing was thrown");

afterEach(() => {
  const run = straight(15);
  const resumed = Generator.fromState(model, JSON.parse(JSON.stringify(run.state())));
  assert.equal(resumed.position, 15);
  run.free();
  resumed.free();
});

test("an object that says it is a typed array", () => {
  for (const tag of ["Float32Array", "Float64Array", "Uint32Array", "Uint8Array"]) {
    for (const length of [0, 3, 1e9, 2 ** 32 - 1, -1, NaN, "3"]) {
      const fake = { [Symbol.toStringTag]: tag, length };
      fails(() => sampleToken(fake, {}, 0));
      fails(() => new Generator(model, fake, "1"));
      fails(() => Frame.decode(fake));
      fails(() => Frame.dense(0, fake));
      fails(() => distribution(fake, {}));
      fails(() => sampleBatch(row([]), 64, {}, fake));
      fails(() => speculativeStep(fake, fake, 0, 0.5, 0.5));
      fails(() => verify({ start: state, frames: [fake] }, { tokens: fake, state }));
    }
    const own = Object.defineProperty(Float32Array.of(0, 1), "length", { value: 2 ** 31 });
    survives(() => sampleToken(own, {}, 0));
  }
});

test("getters and proxies that throw", () => {
  const boom = () => {
    throw new RangeError("boom");
  };
  const traps = new Proxy({}, { get: boom, has: boom, ownKeys: boom, getPrototypeOf: boom, getOwnPropertyDescriptor: boom });
  const list = new Proxy([1, 2], { get: boom });
  const run = straight(2);
  const before = JSON.stringify(run.state());
  for (const bad of [traps, list, { get temperature() { return boom(); } }, Object.defineProperty([1], 0, { get: boom })]) {
    for (const call of [
      () => sampleToken(bad, {}, 0),
      () => sampleToken(row([]), bad, 0),
      () => sampleToken(row([]), {}, bad),
      () => uniform(bad, 0),
      () => new Generator(model, bad, "1"),
      () => new Generator(bad, [], "1"),
      () => Generator.fromState(model, bad),
      () => Generator.fromState(model, { ...state, prompt: bad }),
      () => Frame.decode(bad),
      () => Frame.dense(0, bad),
      () => verify(bad, { tokens: [1], state }),
      () => verify({ start: state, frames: bad }, { tokens: [1], state }),
      () => verify({ start: state, frames: [] }, bad),
      () => run.stepWith(bad),
      () => run.stepWith({ ids: bad, logits: row([]), vocab: 64 }),
      () => run.stepWith({ ids: [1], logits: bad, vocab: 64 }),
      () => run.stepWith({ ids: [1], logits: Float32Array.of(1), vocab: bad }),
      () => run.decision(bad),
      () => run.trace(row([]), bad),
      () => Frame.fromSparse(0, bad),
      () => Frame.fromSparse(0, { ids: bad, logits: bad, vocab: 4 }),
      () => mosaicDecision(row([]), bad, "1", 0),
      () => sampleToken(row([]), { topK: bad }, 0),
      () => sampleToken(row([]), { temperature: 1, top_p: bad }, 0),
      () => new Generator(model, [], "1", { processors: [bad] }),
      () => new Generator(model, [], "1", { processors: bad }),
      () => run.stepWithDrafts(bad, [1]),
      () => run.stepWithDrafts([row([]), row([])], bad),
      () => run.stepSpeculative([row([]), row([])], bad),
      () => run.stepSpeculative([row([]), row([])], [bad]),
      () => distribution(bad, {}),
      () => sampleBatch(bad, 64, {}, [0.5]),
      () => sampleBatch(row([]), 64, bad, [0.5]),
      () => sampleBatch(row([]), 64, [bad], [0.5]),
      () => sampleBatch(row([]), 64, {}, bad),
      () => sampleBatch(row([]), 64, {}, [bad]),
      () => sampleBatch(row([]), bad, {}, [0.5]),
      () => speculativeStep(bad, bad, 0, 0.5, 0.5),
      () => stepBatch(bad, () => []),
      () => stepBatch([bad], () => []),
      () => stepBatch([run], () => bad),
      () => stepBatch([run], () => [bad]),
      () => run.stepWithFrame(bad),
    ]) {
      survives(call);
    }
  }
  assert.equal(JSON.stringify(run.state()), before);
  run.step();
  run.free();
});

test("an argument that steps or frees the run while it is read", () => {
  for (const act of [(run) => run.step(), (run) => run.free(), (run) => run.stepWith(row([]))]) {
    for (const call of [(run, bad) => run.stepWith(bad), (run, bad) => run.decision(bad), (run, bad) => run.trace(bad)]) {
      const run = straight(1);
      const logits = { ids: [3], get logits() { act(run); return Float32Array.of(1); }, vocab: 64 };
      survives(() => call(run, logits));
      survives(() => run.step());
      run.free();
    }
  }
});

test("a prototype that lies, or cannot be asked", () => {
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  for (const bad of [revoked.proxy, new Proxy({}, { getPrototypeOf: () => Promise.prototype }), new Proxy(Promise.resolve(), {})]) {
    fails(() => sampleToken(row([]), bad, 0));
    fails(() => Generator.fromState(model, bad));
    fails(() => verify(bad, { tokens: [1], state }));
  }
  // The name of a class is shown in the message, and may be anything.
  for (const name of [5, "x".repeat(1e6), Symbol("x"), { toString: 1 }]) {
    class Settings {}
    Object.defineProperty(Settings, "name", { value: name });
    const error = survives(() => sampleToken(row([]), new Settings(), 0));
    assert.equal(error.code, "settings_type");
    assert.ok(error.message.length < 200);
  }
});

test("a state without end, and one too deep", () => {
  const round = { ...state };
  round.prompt = [round];
  fails(() => Generator.fromState(model, round));
  let deep = [];
  for (let i = 0; i < 200_000; i++) deep = [deep];
  fails(() => Generator.fromState(model, { ...state, prompt: deep }));
  fails(() => Generator.fromState(model, { ...state, settings: { ...state.settings, temperature: deep } }));
  survives(() => verify({ start: { ...state, prompt: deep }, frames: [] }, { tokens: [1], state }));
  survives(() => verify({ start: state, frames: [] }, { tokens: [1], state: round }));
});

test("lists that are long and hold nothing", () => {
  const long = new Array(2 ** 32 - 1);
  fails(() => new Generator(model, long, "1"));
  fails(() => sampleBatch(row([]), 64, {}, long));
  fails(() => stepBatch(long, () => []));
  fails(() => verify({ start: state, frames: long }, { tokens: [1], state }));
  fails(() => verify({ start: state, frames: [] }, { tokens: long, state }));
});

test("a detached buffer holds no logits", () => {
  const logits = row([]);
  structuredClone(logits, { transfer: [logits.buffer] });
  fails(() => sampleToken(logits, {}, 0));
});

test("methods on something else", () => {
  for (const other of [{}, null, undefined, Object.create(Generator.prototype), Object.create(Frame.prototype)]) {
    fails(() => Generator.prototype.step.call(other));
    fails(() => Generator.prototype.state.call(other));
    fails(() => Frame.prototype.encode.call(other));
    const run = straight(1);
    fails(() => run.stepWithFrame(other));
    run.free();
  }
});

test("more logits than memory holds", () => {
  // 4 GiB in all: the copy cannot be made.
  let logits;
  try {
    logits = new Float64Array(2 ** 29);
  } catch {
    return;
  }
  fails(() => sampleToken(logits, {}, 0));
});
