import { join } from "node:path";

// The tools are installed two folders up, as in a workspace; nothing here is about the package.
const root = join(import.meta.dirname, "../..");
export default { turbopack: { root }, outputFileTracingRoot: root };
