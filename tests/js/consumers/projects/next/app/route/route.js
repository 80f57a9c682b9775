import { run } from "../../run.js";

export const dynamic = "force-dynamic";

export async function GET() {
  return Response.json(await run());
}
