import { writeFileSync } from "node:fs";
import { test } from "vitest";
import { run } from "./run.js";

test("the package", async () => {
  writeFileSync("report.json", JSON.stringify(await run()));
});
