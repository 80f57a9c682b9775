import { run } from "./run.js";

export default {
  async fetch() {
    try {
      return Response.json(await run());
    } catch (error) {
      return Response.json({ failed: String(error?.stack ?? error) });
    }
  },
};
