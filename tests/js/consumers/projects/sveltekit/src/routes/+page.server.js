import { run } from "../../run.js";

export const load = async () => ({ server: await run() });
