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
  randomSeed: () => randomSeed
});
module.exports = __toCommonJS(script_exports);
var import_node_crypto = require("node:crypto");
var import_sampler = require("./sampler.cjs");
var randomSeed = globalThis.crypto ? import_sampler.randomSeed : () => String(import_node_crypto.webcrypto.getRandomValues(new BigUint64Array(1))[0]);
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  randomSeed
});
