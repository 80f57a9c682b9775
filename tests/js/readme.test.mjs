// Runs the JavaScript of README.md and of the npm package's README.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

for (const file of ["README.md", "scripts/pkg/README.md"]) {
  const text = await readFile(new URL(`../../${file}`, import.meta.url), "utf8");
  const all = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map((match) => match[1]);
  // The slim entry needs a bundler here: the tests of the consumers run it.
  const blocks = all.filter((block) => !block.includes("@quillmate/sampler/slim"));

  test(`${file} has JavaScript`, () => assert.ok(blocks.length > 0));

  blocks.forEach((block, at) => {
    test(`block ${at + 1} of ${file} runs, and gives what its comments say`, async () => {
      // `expression; // value` becomes an assertion.
      const checked = block
        .replaceAll("@quillmate/sampler", import.meta.resolve("@quillmate/sampler"))
        .replace(/^(\w[^;]*); \/\/ ([\d["].*|true)$/gm, (_, expression, value) => `same(${expression}, ${value});`);
      assert.match(checked, /^same\(/m);
      globalThis.same = assert.deepEqual;
      await import(`data:text/javascript,${encodeURIComponent(checked)}`);
    });
  });
}
