import { run } from "../../run.js";

export const config = { runtime: "edge" };

export default async function handler() {
  return Response.json(await run());
}
