// glue FILE: puts src/wasm/glue.js into the script that wasm-bindgen generated, and makes it use it.
//
// wasm-bindgen throws plain errors without a code where it meets a missing wasm, a freed object or a wrong `this`, and has
// no setting for that. Its text is patched rather than wrapped: a second class around each class would need every method
// written again, and could drift from the first. wasm-bindgen is pinned, and each piece of text must be there as often as
// it is expected, so another version stops the build here. tests/js/errors.test.mjs holds what comes of it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const file = process.argv[2];
let script = readFileSync(file, "utf8");

/** Replaces `text`, which must be there `times` times. */
function replace(text, by, times = 1) {
  const parts = script.split(text);
  if (parts.length !== times + 1) {
    throw new Error(`wasm-bindgen's script holds this ${parts.length - 1} times, not ${times}:\n${text}`);
  }
  script = parts.join(by);
}

const head = '/* @ts-self-types="./sampler.d.ts" */\n';
replace(head, `${head}\n${readFileSync(join(import.meta.dirname, "../../src/wasm/glue.js"), "utf8")}`);

// Before init().
replace("let wasmModule, wasmInstance, wasm;", "let wasmModule, wasmInstance, wasm = notInitialized;");
replace("if (wasm !== undefined) return wasm;", "if (wasm !== notInitialized) return wasm;", 2);
// An initSync() while an init() is under way has loaded one by then: a second under its objects would have none of them.
replace(
  "wasmInstance = instance;\n    wasm = instance.exports;",
  "if (wasm !== notInitialized) return wasm;\n    wasmInstance = instance;\n    wasm = instance.exports;",
);

for (const name of ["Frame", "Generator"]) {
  const registry = `${name}Finalization`;
  const type = name.toLowerCase();
  replace(`obj.__wbg_ptr = ptr;\n        ${registry}.register(obj, obj.__wbg_ptr, obj);`, `adopt(obj, ptr, "${name}", ${registry});`);
  replace(
    `this.__wbg_ptr = ret[0];\n        ${registry}.register(this, this.__wbg_ptr, this);`,
    `adopt(this, ret[0], "${name}", ${registry});`,
  );
  replace(
    `const ptr = this.__wbg_ptr;\n        this.__wbg_ptr = 0;\n        ${registry}.unregister(this);\n        return ptr;`,
    `return disown(this, "${name}", ${registry});`,
  );
  // A second free() does nothing. A generator that waits for its model stays. (1: memory that a call on the way up still
  // uses is freed when that call ends.)
  replace(
    `const ptr = this.__destroy_into_raw();\n        wasm.__wbg_${type}_free(ptr, 0);`,
    [
      `if (handleOf(this, "${name}").ptr === 0) return;`,
      ...(name === "Generator" ? ["this._idle();"] : []),
      `wasm.__wbg_${type}_free(this.__destroy_into_raw(), 1);`,
    ].join("\n        "),
  );
  const method = new RegExp(`(= wasm\\.${type}_\\w+\\()this\\.__wbg_ptr`, "g");
  if (!method.test(script)) throw new Error(`no method of ${name} uses its pointer`);
  script = script.replace(method, `$1pointerOf(this, "${name}")`);
}
// No way around the above.
for (const left of ["__wbg_ptr", "_assertClass"]) {
  if (script.includes(left)) throw new Error(`wasm-bindgen's script uses ${left} in a way that is not known here`);
}
writeFileSync(file, script);
