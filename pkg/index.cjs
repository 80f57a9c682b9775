var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
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
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

var script_exports = {};
__export(script_exports, {
  default: () => init,
  initSync: () => initSync
});
module.exports = __toCommonJS(script_exports);
var import_embedded = require("./embedded.cjs");
var import_options = require("./options.cjs");
var import_sampler = __toESM(require("./sampler.cjs"));
__reExport(script_exports, require("./sampler.cjs"), module.exports);
async function init(options) {
  const { module_or_path: given } = (0, import_options.optionsOf)("init", options, "module_or_path");
  return (0, import_sampler.default)({
    get module_or_path() {
      return given === void 0 ? (0, import_embedded.bytes)() : (0, import_options.fetched)(given);
    }
  });
}
function initSync(options) {
  const { module: given } = (0, import_options.optionsOf)("initSync", options, "module");
  return (0, import_sampler.initSync)({
    get module() {
      return given === void 0 ? (0, import_embedded.bytes)() : (0, import_options.compiled)(given);
    }
  });
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  initSync,
  ...require("./sampler.cjs")
});
