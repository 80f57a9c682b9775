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
  compiled: () => compiled,
  fetched: () => fetched,
  optionsOf: () => optionsOf,
  ready: () => ready
});
module.exports = __toCommonJS(script_exports);
var import_sampler = require("./sampler.cjs");
var tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
function optionsOf(name, options = {}, option) {
  if (tag(options) !== "Object") throw new import_sampler.SamplerError("field_type", `${name} takes an object: ${name}({ ${option}: … })`);
  for (const key of Object.keys(options)) {
    if (key !== option) throw new import_sampler.SamplerError("field_unknown", `${name} has no option ${key}, only ${option}`);
  }
  return options;
}
function isWasm(value) {
  if (ArrayBuffer.isView(value)) return tag(value) !== "DataView" && tag(value.buffer) === "ArrayBuffer";
  return ["ArrayBuffer", "WebAssembly.Module"].includes(tag(value));
}
function compiled(given) {
  if (isWasm(given)) return given;
  throw new import_sampler.SamplerError("field_type", `module must be a WebAssembly.Module or bytes, but is ${tag(given)}`);
}
async function fetched(given) {
  let source = await given;
  if (typeof source === "string" || ["Request", "URL"].includes(tag(source))) {
    const answer = fetch(source);
    source = await answer.catch((cause) => {
      throw Object.assign(new import_sampler.SamplerError("wasm_unavailable", `the wasm could not be fetched: ${cause.message}`), { cause });
    });
  }
  if (isWasm(source)) return source;
  if (tag(source) !== "Response") {
    throw new import_sampler.SamplerError("field_type", `module_or_path must be a WebAssembly.Module, bytes, a Response or an address, but is ${tag(source)}`);
  }
  if (source.ok) return source;
  throw new import_sampler.SamplerError("wasm_unavailable", `the wasm could not be fetched: ${source.status} ${source.statusText} ${source.url}`.trim());
}
function ready(wasm) {
  return {
    async init(options) {
      optionsOf("init", options, "module_or_path");
      return wasm;
    },
    initSync(options) {
      optionsOf("initSync", options, "module");
      return wasm;
    }
  };
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  compiled,
  fetched,
  optionsOf,
  ready
});
