// From token ids to text, with the model's token table.
import { ApiError } from "./errors";

export class TokenTable {
  readonly count: number;
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;

  /** Little-endian u32 count, then for each id a u16 length and as many bytes. */
  constructor(buffer: ArrayBuffer) {
    const damaged = new ApiError("unexpected_answer", "The token table is damaged.");
    const view = new DataView(buffer);
    if (buffer.byteLength < 4) throw damaged;
    this.count = view.getUint32(0, true);
    if (this.count > buffer.byteLength / 2) throw damaged;
    this.#bytes = new Uint8Array(buffer);
    this.#starts = new Uint32Array(this.count);
    let at = 4;
    for (let id = 0; id < this.count; id++) {
      if (at + 2 > buffer.byteLength) throw damaged;
      this.#starts[id] = at;
      at += 2 + view.getUint16(at, true);
    }
    if (at !== buffer.byteLength) throw damaged;
  }

  /** The token's bytes; none for a special token or an id the table does not have. */
  bytes(id: number): Uint8Array {
    const start = this.#starts[id];
    if (start === undefined) return new Uint8Array(0);
    const length = (this.#bytes[start] ?? 0) | ((this.#bytes[start + 1] ?? 0) << 8);
    return this.#bytes.subarray(start + 2, start + 2 + length);
  }

  text(ids: readonly number[]): string {
    const text = new Detokenizer(this);
    return ids.map((id) => text.push(id)).join("");
  }

  /** The token as it can be named in a sentence: “ door”, “↵”, or its bytes where it is a part of a character. */
  name(id: number | null): string {
    if (id === null) return "nothing";
    const bytes = this.bytes(id);
    if (bytes.length === 0) return `the special token ${id}`;
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
      // A space at its start stays with the word when the sentence is broken into lines.
      return `“${text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ /, "\u00a0")}”`;
    } catch {
      return `the bytes ${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ")}`;
    }
  }
}

/** Text as it comes: a character that is not whole yet waits for its other half. */
export class Detokenizer {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  constructor(readonly table: TokenTable) {}

  push(id: number): string {
    return this.#decoder.decode(this.table.bytes(id), { stream: true });
  }
}
