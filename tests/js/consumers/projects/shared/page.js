import { run } from "./run.js";

run().then(
  (report) => (globalThis.report = report),
  (error) => (globalThis.report = { failed: String(error?.stack ?? error) }),
);
