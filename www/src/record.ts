// A take as a file: a record of the package, made from the data in the browser.
import type { RecordFile } from "@quillmate/sampler";
import { count } from "./check";
import { ApiError } from "./errors";
import { type RunTake, unknownEnvironment } from "./takes";
import { record } from "./wire";

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

export function toRecord(take: RunTake, frames: readonly Bytes[]): RecordFile {
  const { name, sha256, arithmetic, tokenizer_sha256, vocab } = take.model;
  return {
    record: 3,
    identity: {
      crate_version: take.made?.crate_version ?? null,
      target: take.made?.target ?? null,
      model: { name, sha256, arithmetic: arithmetic ?? null, tokenizer_sha256, vocab },
      constraint: take.constraint ?? null,
      environment: take.made?.environment ?? unknownEnvironment,
    },
    start: take.start,
    tokens: take.tokens,
    draws_used: take.start.settings.temperature === 0 ? 0 : take.tokens.length,
    frames: frames.map(toBase64),
    decisions: null,
    stop: { max_tokens: take.length, end_tokens: take.end_tokens ?? null, reason: take.reason },
  };
}

/** A record that can become a take: each token with its frame, and the model it is of. Forms 1 and 2 are brought to form 3. */
export function readRecord(json: string): { record: RecordFile; frames: Bytes[] } {
  const found = parsed(json, record);
  const frames = found.frames?.filter((frame) => frame !== null) ?? [];
  if (frames.length !== found.tokens.length) throw new ApiError("not_a_record", "It has not one frame for each token.");
  return { record: found, frames: frames.map(fromBase64) };
}

/** Any record, to be compared; the package checks all of it. */
export const readAny = (json: string): unknown => parsed(json, (value) => value);

function parsed<T>(json: string, check: (value: unknown) => T): T {
  try {
    return check(JSON.parse(json));
  } catch (error) {
    throw new ApiError("not_a_record", error instanceof Error ? error.message : String(error));
  }
}

/** For developers: a take as a case of the test vectors, each step with its frame and expected token. */
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
