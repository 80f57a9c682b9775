// The CommonJS form of a script of the package, for Jest and for Node before 20.19, whose `require` takes nothing else.
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { build } from "esbuild";

/** Scripts that require each other by the names they have as CommonJS. */
const siblings = {
  name: "siblings",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.\/[\w-]+\.js$/ }, ({ path, kind }) =>
      kind === "import-statement" ? { path: path.replace(/\.js$/, ".cjs"), external: true } : undefined,
    ),
};

/**
 * @param {string} script the path of the script
 * @param {string} [inject] a script whose exports stand for globals of the same names
 * @returns {Promise<string>} what it is as CommonJS
 */
export async function commonjs(script, inject) {
  const { outputFiles } = await build({
    // As text, under one name: of a file in a package of modules esbuild would take the default import to be the whole of `module.exports`.
    stdin: { contents: readFileSync(script, "utf8"), resolveDir: dirname(script), sourcefile: "script.js" },
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "es2020",
    charset: "utf8",
    inject: inject ? [inject] : [],
    plugins: [siblings],
    legalComments: "none",
    minifyWhitespace: basename(script) === "embedded.js",
    write: false,
  });
  // esbuild names the source of each part by its path.
  return outputFiles[0].text.replaceAll(/^\/\/ .*\.js\n/gm, "");
}
