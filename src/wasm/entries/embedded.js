// The wasm embedded in the script: deflated, to keep the script small even if no server compresses it, and in base64, which
// every tool leaves intact. scripts/pkg/embed.mjs makes `bytes` from this file.
import { inflateSync } from "fflate";

export function bytes() {
  const text = atob(DEFLATED);
  const deflated = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) deflated[at] = text.charCodeAt(at);
  return inflateSync(deflated, { out: new Uint8Array(SIZE) });
}
