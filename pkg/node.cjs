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
var __reExport = (target, mod, secondTarget) => (__copyProps(target, mod, "default"), secondTarget && __copyProps(secondTarget, mod, "default"));
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

var script_exports = {};
__export(script_exports, {
  default: () => init,
  initSync: () => initSync,
  randomSeed: () => import_node_seed.randomSeed
});
module.exports = __toCommonJS(script_exports);
var import_embedded = require("./embedded.cjs");
var import_options = require("./options.cjs");
var import_sampler = require("./sampler.cjs");
__reExport(script_exports, require("./sampler.cjs"), module.exports);
var import_node_seed = require("./node-seed.cjs");
var { init, initSync } = (0, import_options.ready)((0, import_sampler.initSync)({ module: (0, import_embedded.bytes)() }));
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  initSync,
  randomSeed,
  ...require("./sampler.cjs")
});
