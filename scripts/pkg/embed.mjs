// The wasm as a script, from src/wasm/entries/embedded.js: deflated, in base64, with the inflate of fflate (MIT) beside it.
import { build } from "esbuild";
import { deflateSync } from "fflate";

/**
 * @param {string} entry the path of embedded.js
 * @param {Uint8Array} wasm
 * @returns {Promise<string>} the script
 */
export async function embed(entry, wasm) {
  // By fflate as well, in place of Node's zlib, whose output is another on other processors.
  const deflated = Buffer.from(deflateSync(wasm, { level: 9, mem: 12 })).toString("base64");
  const { outputFiles } = await build({
    entryPoints: [entry],
    absWorkingDir: import.meta.dirname,
    nodePaths: [`${import.meta.dirname}/node_modules`],
    bundle: true,
    format: "esm",
    target: "es2020",
    charset: "ascii",
    minify: true,
    define: { DEFLATED: JSON.stringify(deflated), SIZE: String(wasm.length) },
    banner: { js: "// Holds the inflate of fflate, Copyright (c) 2023 Arjun Barrett, MIT licence." },
    legalComments: "none",
    write: false,
  });
  return outputFiles[0].text;
}
