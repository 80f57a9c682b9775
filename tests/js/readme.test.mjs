// The JavaScript of README.md, run as it stands.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
const blocks = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map((match) => match[1]);

test("README.md has JavaScript", () => assert.ok(blocks.length > 0));

blocks.forEach((block, at) => {
  test(`block ${at + 1} of README.md runs, and gives what its comments say`, async () => {
    // `expression; // value` becomes an assertion.
    const checked = block
      .replaceAll("@quillmate/sampler", import.meta.resolve("@quillmate/sampler"))
      .replace(/^([\w.]+\(.*\)); \/\/ ([\d["].*)$/gm, (_, call, value) => `same(${call}, ${value});`);
    assert.match(checked, /^same\(/m);
    globalThis.same = assert.deepEqual;
    await import(`data:text/javascript,${encodeURIComponent(checked)}`);
  });
});
