// A take as a file: the server's record format, put together from what the browser keeps.
import { count } from "./check";
import { ApiError } from "./errors";
import type { RunTake } from "./takes";
import { record, type RunRecord } from "./wire";

type Bytes = Uint8Array<ArrayBuffer>;

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

export function fromBase64(text: string): Bytes {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    throw new ApiError("not_a_record", "A frame is not base64.");
  }
}

export function toRecord(take: RunTake, frames: readonly Bytes[]): RunRecord {
  return {
    record: 1,
    model: take.model,
    start: take.start,
    tokens: take.tokens,
    frames: frames.map(toBase64),
    reason: take.reason,
  };
}

export function readRecord(json: string): { record: RunRecord; frames: Bytes[] } {
  let found: RunRecord;
  try {
    found = record(JSON.parse(json));
  } catch (error) {
    throw new ApiError("not_a_record", error instanceof Error ? error.message : String(error));
  }
  if (found.frames.length !== found.tokens.length) throw new ApiError("not_a_record", "It has not one frame for each token.");
  return { record: found, frames: found.frames.map(fromBase64) };
}

/** For engineers: a take as a case for the test vectors, each step with its frame and the token it must give. */
export function toVector(take: RunTake, frames: readonly Bytes[]): string {
  const vector = {
    name: `${take.model.name}, seed ${take.start.seed}, ${take.tokens.length} tokens`,
    model: take.model,
    start: take.start,
    steps: frames.map((frame, i) => ({
      step: count(take.start.step + i, "step"),
      token: take.tokens[i],
      frame_checksum: take.checksums[i],
      frame: toBase64(frame),
    })),
  };
  return JSON.stringify(vector, null, 1);
}

export function fileName(take: RunTake): string {
  return `quillmate-seed-${take.start.seed}-${take.tokens.length}-tokens.json`;
}

export function offer(name: string, contents: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([contents], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
