var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

var script_exports = {};
__export(script_exports, {
  Frame: () => Frame,
  Generator: () => Generator,
  SamplerError: () => SamplerError,
  default: () => __wbg_init,
  deriveSeed: () => deriveSeed,
  distribution: () => distribution,
  draw: () => draw,
  exp: () => exp,
  firstDivergence: () => firstDivergence,
  initSync: () => initSync,
  loadState: () => loadState,
  logitsBuffer: () => logitsBuffer,
  mosaicDecision: () => mosaicDecision,
  mosaicStep: () => mosaicStep,
  mosaicTrace: () => mosaicTrace,
  randomSeed: () => randomSeed,
  release: () => release,
  sampleBatch: () => sampleBatch,
  sampleToken: () => sampleToken,
  speculativeStep: () => speculativeStep,
  stateSchema: () => stateSchema,
  stepBatch: () => stepBatch,
  uniform: () => uniform,
  verify: () => verify
});
module.exports = __toCommonJS(script_exports);

var Encoder = class {
  encode(text) {
    const escaped = encodeURIComponent(text.replace(/\p{Surrogate}/gu, "�"));
    const units = escaped.match(/%..|./g) ?? [];
    return Uint8Array.from(units, (unit) => unit.length === 3 ? parseInt(unit.slice(1), 16) : unit.charCodeAt(0));
  }
};
var Decoder = class {
  /** All of `bytes`, which are well-formed: they come from Rust's strings. */
  decode(bytes = new Uint8Array()) {
    let escaped = "";
    for (const byte of bytes) escaped += `%${byte.toString(16).padStart(2, "0")}`;
    return decodeURIComponent(escaped);
  }
};
var { TextEncoder = Encoder, TextDecoder = Decoder } = globalThis;

var SamplerError = class extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
};
Object.defineProperty(SamplerError.prototype, "name", { value: "SamplerError", writable: true, configurable: true });
var notInitialized = new Proxy(
  {},
  {
    get() {
      throw new SamplerError("not_initialized", "the wasm is not loaded yet; call init() and await it first");
    }
  }
);
var HANDLE = /* @__PURE__ */ Symbol("handle");
var copies = {
  Frame: "a Frame cannot be cloned, posted or copied, because its memory is the wasm's; send encode() and read it with Frame.decode",
  Generator: "a Generator cannot be cloned, posted or copied, because its memory is the wasm's; send state() and go on with Generator.fromState"
};
var Handle = class {
  constructor(ptr, name) {
    Object.seal(Object.assign(this, { ptr, name }));
  }
};
function adopt(object, ptr, name, registry) {
  const handle = new Handle(ptr, name);
  Object.defineProperty(object, HANDLE, { value: handle });
  Object.defineProperty(object, "_wasm", {
    get() {
      throw new SamplerError("not_cloneable", copies[name]);
    },
    enumerable: true
  });
  registry.register(object, ptr, handle);
}
function handleOf(object, name) {
  const handle = Object(object)[HANDLE];
  if (!(handle instanceof Handle) || handle.name !== name) {
    throw new SamplerError("receiver_type", `this method must be called on a ${name}`);
  }
  return handle;
}
function pointerOf(object, name) {
  const { ptr } = handleOf(object, name);
  if (ptr === 0) throw new SamplerError("freed", `this ${name} was freed`);
  return ptr;
}
function disown(object, name, registry) {
  const ptr = pointerOf(object, name);
  const handle = handleOf(object, name);
  handle.ptr = 0;
  registry.unregister(handle);
  return ptr;
}
function secondHandle(object) {
  let handle;
  try {
    handle = Object(object)[HANDLE];
  } catch {
  }
  if (!(handle instanceof Handle)) return void 0;
  const ptr = pointerOf(object, handle.name);
  return handle.name === "Frame" ? Frame.__wrap(wasm.frame__share(ptr)) : Generator.__wrap(wasm.generator__share(ptr));
}
var Frame = class _Frame {
  static __wrap(ptr) {
    const obj = Object.create(_Frame.prototype);
    adopt(obj, ptr, "Frame", FrameFinalization);
    return obj;
  }
  static __unwrap(jsValue) {
    if (!(jsValue instanceof _Frame)) {
      return 0;
    }
    return jsValue.__destroy_into_raw();
  }
  __destroy_into_raw() {
    return disown(this, "Frame", FrameFinalization);
  }
  free() {
    if (handleOf(this, "Frame").ptr === 0) return;
    wasm.__wbg_frame_free(this.__destroy_into_raw(), 1);
  }
  /**
   * Another handle on the same frame, for `stepWithFrame`. Not part of the interface.
   * @returns {Frame}
   */
  _share() {
    const ret = wasm.frame__share(pointerOf(this, "Frame"));
    return _Frame.__wrap(ret);
  }
  /**
   * `checksum`.
   * @returns {string}
   */
  get checksum() {
    let deferred1_0;
    let deferred1_1;
    try {
      const ret = wasm.frame_checksum(pointerOf(this, "Frame"));
      deferred1_0 = ret[0];
      deferred1_1 = ret[1];
      return getStringFromWasm0(ret[0], ret[1]);
    } finally {
      wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
    }
  }
  /**
   * `Frame.decode(bytes)`.
   * @param {any} bytes
   * @returns {Frame}
   */
  static decode(bytes) {
    const ret = wasm.frame_decode(bytes);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Frame.__wrap(ret[0]);
  }
  /**
   * `Frame.dense(step, logits)`.
   * @param {any} step
   * @param {any} logits
   * @returns {Frame}
   */
  static dense(step, logits) {
    const ret = wasm.frame_dense(step, logits);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Frame.__wrap(ret[0]);
  }
  /**
   * `dtype`.
   * @returns {string}
   */
  get dtype() {
    let deferred1_0;
    let deferred1_1;
    try {
      const ret = wasm.frame_dtype(pointerOf(this, "Frame"));
      deferred1_0 = ret[0];
      deferred1_1 = ret[1];
      return getStringFromWasm0(ret[0], ret[1]);
    } finally {
      wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
    }
  }
  /**
   * `encode()`.
   * @returns {Uint8Array}
   */
  encode() {
    const ret = wasm.frame_encode(pointerOf(this, "Frame"));
    var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
    wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
    return v1;
  }
  /**
   * `Frame.forSettings(step, logits, settings)`.
   * @param {any} step
   * @param {any} logits
   * @param {any} settings
   * @returns {Frame}
   */
  static forSettings(step, logits, settings) {
    const ret = wasm.frame_forSettings(step, logits, settings);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Frame.__wrap(ret[0]);
  }
  /**
   * `Frame.fromSparse(step, row)`.
   * @param {any} step
   * @param {any} row
   * @returns {Frame}
   */
  static fromSparse(step, row) {
    const ret = wasm.frame_fromSparse(step, row);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Frame.__wrap(ret[0]);
  }
  /**
   * `layout`.
   * @returns {string}
   */
  get layout() {
    let deferred1_0;
    let deferred1_1;
    try {
      const ret = wasm.frame_layout(pointerOf(this, "Frame"));
      deferred1_0 = ret[0];
      deferred1_1 = ret[1];
      return getStringFromWasm0(ret[0], ret[1]);
    } finally {
      wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
    }
  }
  /**
   * `logits(settings)`.
   * @param {any} settings
   * @returns {Float32Array}
   */
  logits(settings) {
    const ret = wasm.frame_logits(pointerOf(this, "Frame"), settings);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `maxTopK`.
   * @returns {any}
   */
  get maxTopK() {
    const ret = wasm.frame_maxTopK(pointerOf(this, "Frame"));
    return ret;
  }
  /**
   * `new Frame()`.
   */
  constructor() {
    const ret = wasm.frame_new();
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    adopt(this, ret[0], "Frame", FrameFinalization);
    return this;
  }
  /**
   * `Frame.sparse(step, logits, k)`.
   * @param {any} step
   * @param {any} logits
   * @param {any} k
   * @returns {Frame}
   */
  static sparse(step, logits, k) {
    const ret = wasm.frame_sparse(step, logits, k);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Frame.__wrap(ret[0]);
  }
  /**
   * `step`.
   * @returns {number}
   */
  get step() {
    const ret = wasm.frame_step(pointerOf(this, "Frame"));
    return ret;
  }
  /**
   * `sufficesFor(settings)`.
   * @param {any} settings
   * @returns {boolean}
   */
  sufficesFor(settings) {
    const ret = wasm.frame_sufficesFor(pointerOf(this, "Frame"), settings);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return ret[0] !== 0;
  }
  /**
   * `toJSON()`: the bytes in base64, as in a record file.
   * @returns {string}
   */
  toJSON() {
    let deferred1_0;
    let deferred1_1;
    try {
      const ret = wasm.frame_toJSON(pointerOf(this, "Frame"));
      deferred1_0 = ret[0];
      deferred1_1 = ret[1];
      return getStringFromWasm0(ret[0], ret[1]);
    } finally {
      wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
    }
  }
  /**
   * `vocab`.
   * @returns {number}
   */
  get vocab() {
    const ret = wasm.frame_vocab(pointerOf(this, "Frame"));
    return ret >>> 0;
  }
};
if (Symbol.dispose) Frame.prototype[Symbol.dispose] = Frame.prototype.free;
var Generator = class _Generator {
  static __wrap(ptr) {
    const obj = Object.create(_Generator.prototype);
    adopt(obj, ptr, "Generator", GeneratorFinalization);
    return obj;
  }
  static __unwrap(jsValue) {
    if (!(jsValue instanceof _Generator)) {
      return 0;
    }
    return jsValue.__destroy_into_raw();
  }
  __destroy_into_raw() {
    return disown(this, "Generator", GeneratorFinalization);
  }
  free() {
    if (handleOf(this, "Generator").ptr === 0) return;
    this._idle();
    wasm.__wbg_generator_free(this.__destroy_into_raw(), 1);
  }
  /**
   * Called by `free()` first: refuses while the generator waits for its model. Not part of the interface.
   */
  _idle() {
    const ret = wasm.generator__idle(pointerOf(this, "Generator"));
    if (ret[1]) {
      throw takeFromExternrefTable0(ret[0]);
    }
  }
  /**
   * Another handle on the same run, for `stepBatch`. Not part of the interface.
   * @returns {Generator}
   */
  _share() {
    const ret = wasm.generator__share(pointerOf(this, "Generator"));
    return _Generator.__wrap(ret);
  }
  /**
   * `decision(logits)`.
   * @param {any} logits
   * @returns {any}
   */
  decision(logits) {
    const ret = wasm.generator_decision(pointerOf(this, "Generator"), logits);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `Generator.fromState(model, state)`.
   * @param {any} model
   * @param {any} state
   * @returns {Generator}
   */
  static fromState(model, state) {
    const ret = wasm.generator_fromState(model, state);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Generator.__wrap(ret[0]);
  }
  /**
   * `Generator.newCandidate(model, state, attempt)`.
   * @param {any} model
   * @param {any} state
   * @param {any} attempt
   * @returns {Generator}
   */
  static newCandidate(model, state, attempt) {
    const ret = wasm.generator_newCandidate(model, state, attempt);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Generator.__wrap(ret[0]);
  }
  /**
   * `new Generator(model, prompt, seed, settings)`.
   * @param {any} model
   * @param {any} prompt
   * @param {any} seed
   * @param {any} settings
   */
  constructor(model, prompt, seed, settings) {
    const ret = wasm.generator_new(model, prompt, seed, settings);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    adopt(this, ret[0], "Generator", GeneratorFinalization);
    return this;
  }
  /**
   * `position`.
   * @returns {number}
   */
  get position() {
    const ret = wasm.generator_position(pointerOf(this, "Generator"));
    return ret;
  }
  /**
   * `prompt`.
   * @returns {Uint32Array}
   */
  get prompt() {
    const ret = wasm.generator_prompt(pointerOf(this, "Generator"));
    return ret;
  }
  /**
   * `Generator.replay(model, state)`.
   * @param {any} model
   * @param {any} state
   * @returns {Generator}
   */
  static replay(model, state) {
    const ret = wasm.generator_replay(model, state);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Generator.__wrap(ret[0]);
  }
  /**
   * `Generator.resume(model, state)`.
   * @param {any} model
   * @param {any} state
   * @returns {Generator}
   */
  static resume(model, state) {
    const ret = wasm.generator_resume(model, state);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return _Generator.__wrap(ret[0]);
  }
  /**
   * `seed`.
   * @returns {string}
   */
  get seed() {
    let deferred1_0;
    let deferred1_1;
    try {
      const ret = wasm.generator_seed(pointerOf(this, "Generator"));
      deferred1_0 = ret[0];
      deferred1_1 = ret[1];
      return getStringFromWasm0(ret[0], ret[1]);
    } finally {
      wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
    }
  }
  /**
   * `settings`.
   * @returns {object}
   */
  get settings() {
    const ret = wasm.generator_settings(pointerOf(this, "Generator"));
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `state()`.
   * @returns {any}
   */
  state() {
    const ret = wasm.generator_state(pointerOf(this, "Generator"));
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `stepSpeculative(rows, drafts)`.
   * @param {any} rows
   * @param {any} drafts
   * @returns {object}
   */
  stepSpeculative(rows, drafts) {
    const ret = wasm.generator_stepSpeculative(pointerOf(this, "Generator"), rows, drafts);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `stepWithDrafts(rows, drafts)`.
   * @param {any} rows
   * @param {any} drafts
   * @returns {object}
   */
  stepWithDrafts(rows, drafts) {
    const ret = wasm.generator_stepWithDrafts(pointerOf(this, "Generator"), rows, drafts);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `stepWithFrame(frame)`.
   * @param {any} frame
   * @returns {number}
   */
  stepWithFrame(frame) {
    const ret = wasm.generator_stepWithFrame(pointerOf(this, "Generator"), frame);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return ret[0] >>> 0;
  }
  /**
   * `stepWith(logits)`.
   * @param {any} logits
   * @returns {number}
   */
  stepWith(logits) {
    const ret = wasm.generator_stepWith(pointerOf(this, "Generator"), logits);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return ret[0] >>> 0;
  }
  /**
   * `step()`.
   * @returns {number}
   */
  step() {
    const ret = wasm.generator_step(pointerOf(this, "Generator"));
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return ret[0] >>> 0;
  }
  /**
   * `toJSON()`.
   * @returns {any}
   */
  toJSON() {
    const ret = wasm.generator_toJSON(pointerOf(this, "Generator"));
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
  /**
   * `tokens`.
   * @returns {Uint32Array}
   */
  get tokens() {
    const ret = wasm.generator_tokens(pointerOf(this, "Generator"));
    return ret;
  }
  /**
   * `trace(logits, {redact})`.
   * @param {any} logits
   * @param {any} options
   * @returns {any}
   */
  trace(logits, options) {
    const ret = wasm.generator_trace(pointerOf(this, "Generator"), logits, options);
    if (ret[2]) {
      throw takeFromExternrefTable0(ret[1]);
    }
    return takeFromExternrefTable0(ret[0]);
  }
};
if (Symbol.dispose) Generator.prototype[Symbol.dispose] = Generator.prototype.free;
function deriveSeed(root, label, attempt) {
  let deferred2_0;
  let deferred2_1;
  try {
    const ret = wasm.deriveSeed(root, label, attempt);
    var ptr1 = ret[0];
    var len1 = ret[1];
    if (ret[3]) {
      ptr1 = 0;
      len1 = 0;
      throw takeFromExternrefTable0(ret[2]);
    }
    deferred2_0 = ptr1;
    deferred2_1 = len1;
    return getStringFromWasm0(ptr1, len1);
  } finally {
    wasm.__wbindgen_free(deferred2_0, deferred2_1, 1);
  }
}
function distribution(logits, settings) {
  const ret = wasm.distribution(logits, settings);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function draw(seed, step, stream) {
  const ret = wasm.draw(seed, step, stream);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function exp(x) {
  const ret = wasm.exp(x);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return ret[0];
}
function firstDivergence(first, second, options) {
  const ret = wasm.firstDivergence(first, second, options);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function loadState(state) {
  const ret = wasm.loadState(state);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function logitsBuffer(vocab) {
  const ret = wasm.logitsBuffer(vocab);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function mosaicDecision(logits, strategy, seed, draw_index) {
  const ret = wasm.mosaicDecision(logits, strategy, seed, draw_index);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function mosaicStep(state, logits) {
  const ret = wasm.mosaicStep(state, logits);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function mosaicTrace(state, logits, options) {
  const ret = wasm.mosaicTrace(state, logits, options);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function randomSeed() {
  let deferred2_0;
  let deferred2_1;
  try {
    const ret = wasm.randomSeed();
    var ptr1 = ret[0];
    var len1 = ret[1];
    if (ret[3]) {
      ptr1 = 0;
      len1 = 0;
      throw takeFromExternrefTable0(ret[2]);
    }
    deferred2_0 = ptr1;
    deferred2_1 = len1;
    return getStringFromWasm0(ptr1, len1);
  } finally {
    wasm.__wbindgen_free(deferred2_0, deferred2_1, 1);
  }
}
function release() {
  const ret = wasm.release();
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function sampleBatch(logits, vocab, settings, u) {
  const ret = wasm.sampleBatch(logits, vocab, settings, u);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function sampleToken(logits, settings, u) {
  const ret = wasm.sampleToken(logits, settings, u);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return ret[0] >>> 0;
}
function speculativeStep(p, q, draft_token, u_accept, u_resample) {
  const ret = wasm.speculativeStep(p, q, draft_token, u_accept, u_resample);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function stateSchema() {
  let deferred1_0;
  let deferred1_1;
  try {
    const ret = wasm.stateSchema();
    deferred1_0 = ret[0];
    deferred1_1 = ret[1];
    return getStringFromWasm0(ret[0], ret[1]);
  } finally {
    wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
  }
}
function stepBatch(generators, model) {
  const ret = wasm.stepBatch(generators, model);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function uniform(seed, step, stream) {
  const ret = wasm.uniform(seed, step, stream);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return ret[0];
}
function verify(record, claim) {
  const ret = wasm.verify(record, claim);
  if (ret[2]) {
    throw takeFromExternrefTable0(ret[1]);
  }
  return takeFromExternrefTable0(ret[0]);
}
function __wbg_get_imports() {
  const import0 = {
    __proto__: null,
    __wbg_Error_208446807d0d1e30: function(arg0, arg1) {
      const ret = Error(getStringFromWasm0(arg0, arg1));
      return ret;
    },
    __wbg_String_8564e559799eccda: function(arg0, arg1) {
      const ret = String(arg1);
      const ptr1 = passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
      const len1 = WASM_VECTOR_LEN;
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
    },
    __wbg___wbindgen_bigint_get_as_i64_11da4b52cd0aedef: function(arg0, arg1) {
      const v = arg1;
      const ret = typeof v === "bigint" ? v : void 0;
      getDataViewMemory0().setBigInt64((arg0 >>> 0) + 8 * 1, isLikeNone(ret) ? BigInt(0) : ret, true);
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, !isLikeNone(ret), true);
    },
    __wbg___wbindgen_boolean_get_4f1baf9a00be3c74: function(arg0) {
      const v = arg0;
      const ret = typeof v === "boolean" ? v : void 0;
      return isLikeNone(ret) ? 16777215 : ret ? 1 : 0;
    },
    __wbg___wbindgen_is_bigint_5fa10641e039d3ef: function(arg0) {
      const ret = typeof arg0 === "bigint";
      return ret;
    },
    __wbg___wbindgen_is_function_741ff2bb612836f5: function(arg0) {
      const ret = typeof arg0 === "function";
      return ret;
    },
    __wbg___wbindgen_is_null_c22311b1cc228e3a: function(arg0) {
      const ret = arg0 === null;
      return ret;
    },
    __wbg___wbindgen_is_object_8b968c3ab8e96595: function(arg0) {
      const val = arg0;
      const ret = typeof val === "object" && val !== null;
      return ret;
    },
    __wbg___wbindgen_is_string_fc456fee5d3317de: function(arg0) {
      const ret = typeof arg0 === "string";
      return ret;
    },
    __wbg___wbindgen_is_undefined_be5b34249ff1fc15: function(arg0) {
      const ret = arg0 === void 0;
      return ret;
    },
    __wbg___wbindgen_jsval_eq_38d7bfbe4cc84039: function(arg0, arg1) {
      const ret = arg0 === arg1;
      return ret;
    },
    __wbg___wbindgen_memory_17a1178bc3328ea3: function() {
      const ret = wasm.memory;
      return ret;
    },
    __wbg___wbindgen_number_get_934b640d0889af78: function(arg0, arg1) {
      const obj = arg1;
      const ret = typeof obj === "number" ? obj : void 0;
      getDataViewMemory0().setFloat64((arg0 >>> 0) + 8 * 1, isLikeNone(ret) ? 0 : ret, true);
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, !isLikeNone(ret), true);
    },
    __wbg___wbindgen_string_get_7ce8eee7fd327545: function(arg0, arg1) {
      const obj = arg1;
      const ret = typeof obj === "string" ? obj : void 0;
      var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
      var len1 = WASM_VECTOR_LEN;
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
      getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
    },
    __wbg___wbindgen_throw_4c88d8bf264fd984: function(arg0, arg1) {
      throw new Error(getStringFromWasm0(arg0, arg1));
    },
    __wbg_add_cc54c2735f8bb6eb: function(arg0, arg1) {
      const ret = arg0.add(arg1);
      return ret;
    },
    __wbg_buffer_0eaa216bac6b8749: function(arg0) {
      const ret = arg0.buffer;
      return ret;
    },
    __wbg_call_40b008ba32f73991: function() {
      return handleError(function(arg0, arg1) {
        const ret = arg0.call(arg1);
        return ret;
      }, arguments);
    },
    __wbg_call_a410eb4b59ed5965: function() {
      return handleError(function(arg0, arg1, arg2) {
        const ret = arg0.call(arg1, arg2);
        return ret;
      }, arguments);
    },
    __wbg_charCodeAt_851946d8f1279e11: function(arg0, arg1) {
      const ret = arg0.charCodeAt(arg1 >>> 0);
      return ret;
    },
    __wbg_construct_8670bb4c2b062969: function() {
      return handleError(function(arg0, arg1) {
        const ret = Reflect.construct(arg0, arg1);
        return ret;
      }, arguments);
    },
    __wbg_frame_unwrap: function(arg0) {
      const ret = Frame.__unwrap(arg0);
      return ret;
    },
    __wbg_from_eac91875c8a5ffa4: function(arg0) {
      const ret = Array.from(arg0);
      return ret;
    },
    __wbg_generator_unwrap: function(arg0) {
      const ret = Generator.__unwrap(arg0);
      return ret;
    },
    __wbg_getOwnPropertyDescriptor_bde8c48ab22edbff: function() {
      return handleError(function(arg0, arg1) {
        const ret = Reflect.getOwnPropertyDescriptor(arg0, arg1);
        return ret;
      }, arguments);
    },
    __wbg_getPrototypeOf_684ea783c7170e41: function(arg0) {
      const ret = Object.getPrototypeOf(arg0);
      return ret;
    },
    __wbg_getPrototypeOf_8fbf04523e13de29: function() {
      return handleError(function(arg0) {
        const ret = Reflect.getPrototypeOf(arg0);
        return ret;
      }, arguments);
    },
    __wbg_getRandomValues_8b6f1f663e6f188d: function() {
      return handleError(function(arg0, arg1) {
        globalThis.crypto.getRandomValues(getArrayU8FromWasm0(arg0, arg1));
      }, arguments);
    },
    __wbg_get_2080c49015e35254: function() {
      return handleError(function(arg0, arg1) {
        const ret = Reflect.get(arg0, arg1);
        return ret;
      }, arguments);
    },
    __wbg_get_bb8b6b35041e00c9: function() {
      return handleError(function(arg0, arg1) {
        const ret = Reflect.get(arg0, arg1 >>> 0);
        return ret;
      }, arguments);
    },
    __wbg_get_unchecked_e6325ad374eff861: function(arg0, arg1) {
      const ret = arg0[arg1 >>> 0];
      return ret;
    },
    __wbg_has_9b9a7a87a842ea13: function(arg0, arg1) {
      const ret = arg0.has(arg1);
      return ret;
    },
    __wbg_instanceof_Error_74e3cca0c4a69161: function(arg0) {
      let result;
      try {
        result = arg0 instanceof Error;
      } catch (_) {
        result = false;
      }
      const ret = result;
      return ret;
    },
    __wbg_isView_7c4f5a7c257b3a84: function(arg0) {
      const ret = ArrayBuffer.isView(arg0);
      return ret;
    },
    __wbg_is_2248ff2b575d60c7: function(arg0, arg1) {
      const ret = Object.is(arg0, arg1);
      return ret;
    },
    __wbg_length_186163212ffe79c3: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_length_5a8bb8abe1e54e15: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_length_6e9d2869242cabf3: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_length_b03a0fabb109b1e9: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_length_c702d06d28b96b72: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_length_e83e819f48c774e4: function(arg0) {
      const ret = arg0.length;
      return ret;
    },
    __wbg_new_37eb45aaf5eeb820: function() {
      const ret = new Array();
      return ret;
    },
    __wbg_new_7075786089b89c5e: function() {
      const ret = /* @__PURE__ */ new Map();
      return ret;
    },
    __wbg_new_787b9fb330d55d78: function(arg0, arg1) {
      const ret = new Error(getStringFromWasm0(arg0, arg1));
      return ret;
    },
    __wbg_new_cd4348290afae586: function() {
      const ret = new Object();
      return ret;
    },
    __wbg_new_fd797269d7ef65a5: function() {
      const ret = /* @__PURE__ */ new WeakSet();
      return ret;
    },
    __wbg_new_from_slice_3512352010266e02: function(arg0, arg1) {
      const ret = new Uint32Array(getArrayU32FromWasm0(arg0, arg1));
      return ret;
    },
    __wbg_new_from_slice_355c10c5d8f2addb: function(arg0, arg1) {
      const ret = new Float32Array(getArrayF32FromWasm0(arg0, arg1));
      return ret;
    },
    __wbg_new_from_slice_aaf85a9746711968: function(arg0, arg1) {
      const ret = new Float64Array(getArrayF64FromWasm0(arg0, arg1));
      return ret;
    },
    __wbg_new_with_byte_offset_and_length_1ea36b9f0c3bc55a: function(arg0, arg1, arg2) {
      const ret = new Float32Array(arg0, arg1 >>> 0, arg2 >>> 0);
      return ret;
    },
    __wbg_new_with_length_00818aa0a226a550: function(arg0) {
      const ret = new Uint32Array(arg0 >>> 0);
      return ret;
    },
    __wbg_new_with_length_01b143a7e5dd5a3e: function(arg0) {
      const ret = new Uint8Array(arg0 >>> 0);
      return ret;
    },
    __wbg_new_with_length_07edd8a7019b8c30: function(arg0) {
      const ret = new Float64Array(arg0 >>> 0);
      return ret;
    },
    __wbg_new_with_length_5c0c9043ebd9ec32: function(arg0) {
      const ret = new Float32Array(arg0 >>> 0);
      return ret;
    },
    __wbg_of_027eb15371aac932: function(arg0) {
      const ret = Array.of(arg0);
      return ret;
    },
    __wbg_of_e7ea0fcd535c1444: function(arg0, arg1) {
      const ret = Array.of(arg0, arg1);
      return ret;
    },
    __wbg_ownKeys_c9890d5405932253: function() {
      return handleError(function(arg0) {
        const ret = Reflect.ownKeys(arg0);
        return ret;
      }, arguments);
    },
    __wbg_preventExtensions_57a96b9be277a218: function(arg0) {
      Object.preventExtensions(arg0);
    },
    __wbg_prototypesetcall_13162965d1fe7aa3: function(arg0, arg1, arg2) {
      Uint8Array.prototype.set.call(getArrayU8FromWasm0(arg0, arg1), arg2);
    },
    __wbg_prototypesetcall_22b1bb88c4ec5c5a: function(arg0, arg1, arg2) {
      Float32Array.prototype.set.call(getArrayF32FromWasm0(arg0, arg1), arg2);
    },
    __wbg_prototypesetcall_4aea6470234c8414: function(arg0, arg1, arg2) {
      Uint32Array.prototype.set.call(getArrayU32FromWasm0(arg0, arg1), arg2);
    },
    __wbg_prototypesetcall_a366c038a3918afa: function(arg0, arg1, arg2) {
      Float64Array.prototype.set.call(getArrayF64FromWasm0(arg0, arg1), arg2);
    },
    __wbg_push_c9f4893fc209f768: function(arg0, arg1) {
      const ret = arg0.push(arg1);
      return ret;
    },
    __wbg_set_2793479888329cb6: function() {
      return handleError(function(arg0, arg1, arg2) {
        const ret = Reflect.set(arg0, arg1, arg2);
        return ret;
      }, arguments);
    },
    __wbg_set_8282f7e0d2d01336: function(arg0, arg1, arg2) {
      const ret = arg0.set(arg1, arg2);
      return ret;
    },
    __wbg_set_d2d33b52458e984a: function(arg0, arg1, arg2) {
      arg0[arg1 >>> 0] = arg2;
    },
    __wbg_set_e4b9a833d288759a: function(arg0, arg1, arg2) {
      arg0[arg1] = arg2;
    },
    __wbg_set_name_822e3903f3184979: function(arg0, arg1, arg2) {
      arg0.name = getStringFromWasm0(arg1, arg2);
    },
    __wbg_static_accessor_CLASS_25c8fe4057dddd5b: function() {
      const ret = typeof SamplerError === "undefined" ? void 0 : SamplerError;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_static_accessor_GLOBAL_THIS_003ee833af9699fc: function() {
      const ret = typeof globalThis === "undefined" ? void 0 : globalThis;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_static_accessor_GLOBAL_e4293fb22cbe77da: function() {
      const ret = typeof global === "undefined" ? void 0 : global;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_static_accessor_SECOND_HANDLE_867c83bf945bd66f: function() {
      const ret = typeof secondHandle === "undefined" ? void 0 : secondHandle;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_static_accessor_SELF_53bb20457401453d: function() {
      const ret = typeof self === "undefined" ? void 0 : self;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_static_accessor_WINDOW_b5e0810bfecb7feb: function() {
      const ret = typeof window === "undefined" ? void 0 : window;
      return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
    },
    __wbg_toStringTag_1bdd39ac5d866229: function() {
      const ret = Symbol.toStringTag;
      return ret;
    },
    __wbg_toString_ac62c4a5cb3e62c7: function() {
      return handleError(function(arg0, arg1) {
        const ret = arg0.toString(arg1);
        return ret;
      }, arguments);
    },
    __wbindgen_generic_0000000000000001: function(arg0) {
      const ret = arg0;
      return ret;
    },
    __wbindgen_generic_0000000000000002: function(arg0, arg1) {
      const ret = getStringFromWasm0(arg0, arg1);
      return ret;
    },
    __wbindgen_generic_0000000000000003: function(arg0) {
      const ret = BigInt.asUintN(64, arg0);
      return ret;
    },
    __wbindgen_init_externref_table: function() {
      const table = wasm.__wbindgen_externrefs;
      table.set(0, void 0);
      table.set(1024, void 0);
      table.set(1025, null);
      table.set(1026, true);
      table.set(1027, false);
    }
  };
  return {
    __proto__: null,
    "./sampler_bg.js": import0
  };
}
var FrameFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_frame_free(ptr, 1));
var GeneratorFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_generator_free(ptr, 1));
function addToExternrefTable0(obj) {
  const idx = wasm.__externref_table_alloc();
  wasm.__wbindgen_externrefs.set(idx, obj);
  return idx;
}
function getArrayF32FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getFloat32ArrayMemory0().subarray(ptr / 4, ptr / 4 + len);
}
function getArrayF64FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getFloat64ArrayMemory0().subarray(ptr / 8, ptr / 8 + len);
}
function getArrayU32FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getUint32ArrayMemory0().subarray(ptr / 4, ptr / 4 + len);
}
function getArrayU8FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getUint8ArrayMemory0().subarray(ptr / 1, ptr / 1 + len);
}
var cachedDataViewMemory0 = null;
function getDataViewMemory0() {
  if (cachedDataViewMemory0 === null || cachedDataViewMemory0.buffer.detached === true || cachedDataViewMemory0.buffer.detached === void 0 && cachedDataViewMemory0.buffer !== wasm.memory.buffer) {
    cachedDataViewMemory0 = new DataView(wasm.memory.buffer);
  }
  return cachedDataViewMemory0;
}
var cachedFloat32ArrayMemory0 = null;
function getFloat32ArrayMemory0() {
  if (cachedFloat32ArrayMemory0 === null || cachedFloat32ArrayMemory0.byteLength === 0) {
    cachedFloat32ArrayMemory0 = new Float32Array(wasm.memory.buffer);
  }
  return cachedFloat32ArrayMemory0;
}
var cachedFloat64ArrayMemory0 = null;
function getFloat64ArrayMemory0() {
  if (cachedFloat64ArrayMemory0 === null || cachedFloat64ArrayMemory0.byteLength === 0) {
    cachedFloat64ArrayMemory0 = new Float64Array(wasm.memory.buffer);
  }
  return cachedFloat64ArrayMemory0;
}
function getStringFromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return decodeText(getUint8ArrayMemory0().subarray(ptr, ptr + len));
}
var cachedUint32ArrayMemory0 = null;
function getUint32ArrayMemory0() {
  if (cachedUint32ArrayMemory0 === null || cachedUint32ArrayMemory0.byteLength === 0) {
    cachedUint32ArrayMemory0 = new Uint32Array(wasm.memory.buffer);
  }
  return cachedUint32ArrayMemory0;
}
var cachedUint8ArrayMemory0 = null;
function getUint8ArrayMemory0() {
  if (cachedUint8ArrayMemory0 === null || cachedUint8ArrayMemory0.byteLength === 0) {
    cachedUint8ArrayMemory0 = new Uint8Array(wasm.memory.buffer);
  }
  return cachedUint8ArrayMemory0;
}
function handleError(f, args) {
  try {
    return f.apply(this, args);
  } catch (e) {
    const idx = addToExternrefTable0(e);
    wasm.__wbindgen_exn_store(idx);
  }
}
function isLikeNone(x) {
  return x === void 0 || x === null;
}
function passStringToWasm0(arg, malloc, realloc) {
  if (realloc === void 0) {
    const buf = cachedTextEncoder.encode(arg);
    const ptr2 = malloc(buf.length, 1) >>> 0;
    getUint8ArrayMemory0().subarray(ptr2, ptr2 + buf.length).set(buf);
    WASM_VECTOR_LEN = buf.length;
    return ptr2;
  }
  let len = arg.length;
  let ptr = malloc(len, 1) >>> 0;
  const mem = getUint8ArrayMemory0();
  let offset = 0;
  for (; offset < len; offset++) {
    const code = arg.charCodeAt(offset);
    if (code > 127) break;
    mem[ptr + offset] = code;
  }
  if (offset !== len) {
    if (offset !== 0) {
      arg = arg.slice(offset);
    }
    ptr = realloc(ptr, len, len = offset + arg.length * 3, 1) >>> 0;
    const view = getUint8ArrayMemory0().subarray(ptr + offset, ptr + len);
    const ret = cachedTextEncoder.encodeInto(arg, view);
    offset += ret.written;
    ptr = realloc(ptr, len, offset, 1) >>> 0;
  }
  WASM_VECTOR_LEN = offset;
  return ptr;
}
function takeFromExternrefTable0(idx) {
  const value = wasm.__wbindgen_externrefs.get(idx);
  wasm.__externref_table_dealloc(idx);
  return value;
}
var cachedTextDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
cachedTextDecoder.decode();
var MAX_SAFARI_DECODE_BYTES = 2146435072;
var numBytesDecoded = 0;
function decodeText(bytes) {
  numBytesDecoded += bytes.length;
  if (numBytesDecoded >= MAX_SAFARI_DECODE_BYTES) {
    cachedTextDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
    cachedTextDecoder.decode();
    numBytesDecoded = bytes.length;
  }
  return cachedTextDecoder.decode(bytes);
}
var cachedTextEncoder = new TextEncoder();
if (!("encodeInto" in cachedTextEncoder)) {
  cachedTextEncoder.encodeInto = function(arg, view) {
    const buf = cachedTextEncoder.encode(arg);
    view.set(buf);
    return {
      read: arg.length,
      written: buf.length
    };
  };
}
var WASM_VECTOR_LEN = 0;
var wasmModule;
var wasmInstance;
var wasm = notInitialized;
function __wbg_finalize_init(instance, module2) {
  if (wasm !== notInitialized) return wasm;
  wasmInstance = instance;
  wasm = instance.exports;
  wasmModule = module2;
  cachedDataViewMemory0 = null;
  cachedFloat32ArrayMemory0 = null;
  cachedFloat64ArrayMemory0 = null;
  cachedUint32ArrayMemory0 = null;
  cachedUint8ArrayMemory0 = null;
  wasm.__wbindgen_start();
  return wasm;
}
async function __wbg_load(module2, imports) {
  if (typeof Response === "function" && module2 instanceof Response) {
    if (!module2.ok) {
      throw new Error(`failed to fetch Wasm: ${module2.status} ${module2.statusText} fetching '${module2.url}'`);
    }
    if (typeof WebAssembly.instantiateStreaming === "function") {
      try {
        return await WebAssembly.instantiateStreaming(module2, imports);
      } catch (e) {
        const validResponse = expectedResponseType(module2.type);
        if (validResponse && module2.headers.get("Content-Type") !== "application/wasm") {
          console.warn("`WebAssembly.instantiateStreaming` failed because your server does not serve Wasm with `application/wasm` MIME type. Falling back to `WebAssembly.instantiate` which is slower. Original error:\n", e);
        } else {
          throw e;
        }
      }
    }
    const bytes = await module2.arrayBuffer();
    return await WebAssembly.instantiate(bytes, imports);
  } else {
    const instance = await WebAssembly.instantiate(module2, imports);
    if (instance.exports) {
      return { instance, module: module2 };
    } else {
      return instance;
    }
  }
  function expectedResponseType(type) {
    switch (type) {
      case "basic":
      case "cors":
      case "default":
        return true;
    }
    return false;
  }
}
function initSync(module2) {
  if (wasm !== notInitialized) return wasm;
  if (module2 !== void 0) {
    if (Object.getPrototypeOf(module2) === Object.prototype) {
      ({ module: module2 } = module2);
    } else {
      console.warn("using deprecated parameters for `initSync()`; pass a single object instead");
    }
  }
  const imports = __wbg_get_imports();
  if (Object.prototype.toString.call(module2) !== "[object WebAssembly.Module]") {
    module2 = new WebAssembly.Module(module2);
  }
  const instance = new WebAssembly.Instance(module2, imports);
  return __wbg_finalize_init(instance, module2);
}
var __wbg_init_promise;
async function __wbg_init(module_or_path) {
  if (wasm !== notInitialized) return wasm;
  if (__wbg_init_promise === void 0) {
    __wbg_init_promise = __wbg_init_once(module_or_path);
    __wbg_init_promise.catch(() => {
      __wbg_init_promise = void 0;
    });
  }
  return __wbg_init_promise;
}
async function __wbg_init_once(module_or_path) {
  if (module_or_path !== void 0) {
    if (Object.getPrototypeOf(module_or_path) === Object.prototype) {
      ({ module_or_path } = module_or_path);
    } else {
      console.warn("using deprecated parameters for the initialization function; pass a single object instead");
    }
  }
  const imports = __wbg_get_imports();
  if (typeof module_or_path === "string" || typeof Request === "function" && module_or_path instanceof Request || typeof URL === "function" && module_or_path instanceof URL) {
    module_or_path = fetch(module_or_path);
  }
  const { instance, module: module2 } = await __wbg_load(await module_or_path, imports);
  return __wbg_finalize_init(instance, module2);
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  Frame,
  Generator,
  SamplerError,
  deriveSeed,
  distribution,
  draw,
  exp,
  firstDivergence,
  initSync,
  loadState,
  logitsBuffer,
  mosaicDecision,
  mosaicStep,
  mosaicTrace,
  randomSeed,
  release,
  sampleBatch,
  sampleToken,
  speculativeStep,
  stateSchema,
  stepBatch,
  uniform,
  verify
});
