// The wasm within the script: deflated, which keeps the script small before any server compresses it, and in base64, which
// every tool passes on unharmed. `bytes` is made by scripts/pkg/embed.mjs from this file.
import { inflateSync } from "fflate";

export function bytes() {
  const text = atob(DEFLATED);
  const deflated = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) deflated[at] = text.charCodeAt(at);
  return inflateSync(deflated, { out: new Uint8Array(SIZE) });
}
