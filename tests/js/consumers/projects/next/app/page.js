// Rendered on the server, in Node.
import { run } from "../run.js";
import Client from "./client.js";

export const dynamic = "force-dynamic";

export default async function Page() {
  return <Client server={await run()} />;
}
