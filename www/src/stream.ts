// The stream of a run: messages of one byte of kind, a little-endian u32 length, and that many bytes.
import { object } from "./check";
import { ApiError, apiError } from "./errors";
import { end, type End } from "./wire";

export type Message = { kind: "alive" } | { kind: "frame"; bytes: Uint8Array<ArrayBuffer> } | ({ kind: "end" } & End);

const HEAD = 5;
/** Far above any frame: a dense one of the largest vocabularies takes about 2 MB. */
const LONGEST = 1 << 26;

/** Splits a stream of byte chunks into messages. */
export class Splitter {
  #kept = new Uint8Array(0);

  *push(piece: Uint8Array): Generator<Message> {
    let bytes = new Uint8Array(this.#kept.length + piece.length);
    bytes.set(this.#kept);
    bytes.set(piece, this.#kept.length);
    while (bytes.length >= HEAD) {
      const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1, true);
      if (length > LONGEST) throw new ApiError("stream_damaged", `A message of ${length} bytes was announced.`);
      if (bytes.length < HEAD + length) break;
      const kind = bytes[0] ?? 0;
      const payload = bytes.slice(HEAD, HEAD + length);
      bytes = bytes.slice(HEAD + length);
      this.#kept = bytes;
      yield message(kind, payload);
    }
    this.#kept = bytes;
  }
}

function message(kind: number, payload: Uint8Array<ArrayBuffer>): Message {
  switch (kind) {
    case 0:
      return { kind: "alive" };
    case 1:
      return { kind: "frame", bytes: payload };
    case 2:
      return { kind: "end", ...end(json(payload)) };
    case 3:
      throw apiError(object(json(payload), "error"));
    default:
      throw new ApiError("stream_damaged", `Message kind ${kind} is unknown.`);
  }
}

function json(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch {
    throw new ApiError("stream_damaged", "A message is not JSON.");
  }
}

/** Yields the server's messages until the end. A stream that stops earlier is a lost connection. */
export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const splitter = new Splitter();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ApiError("connection_lost", "The stream stopped before its end.");
      for (const one of splitter.push(value)) {
        yield one;
        if (one.kind === "end") return;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
