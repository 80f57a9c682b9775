import { describe, expect, it } from "vitest";
import { messages, Splitter } from "../src/stream";

const encoder = new TextEncoder();

function packed(kind: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(5 + payload.length);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(1, payload.length, true);
  bytes.set(payload, 5);
  return bytes;
}

const json = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value));
const end = packed(2, json({ status: "finished", reason: "length", step: 2 }));
const run = Uint8Array.from([
  ...packed(0, new Uint8Array(0)),
  ...packed(1, Uint8Array.of(1, 2, 3)),
  ...packed(1, Uint8Array.of(4)),
  ...end,
]);

describe("a stream", () => {
  it.each([1, 2, 3, 7, run.length])("is the same messages in pieces of %i bytes", (size) => {
    const splitter = new Splitter();
    const all = [];
    for (let at = 0; at < run.length; at += size) all.push(...splitter.push(run.subarray(at, at + size)));
    expect(all).toEqual([
      { kind: "alive" },
      { kind: "frame", bytes: Uint8Array.of(1, 2, 3) },
      { kind: "frame", bytes: Uint8Array.of(4) },
      { kind: "end", status: "finished", reason: "length", step: 2 },
    ]);
  });

  it("throws the error it carries, with its code", () => {
    const error = packed(3, json({ error: { code: "shutting_down", message: "later", step: 3 } }));
    expect(() => [...new Splitter().push(error)]).toThrow(
      expect.objectContaining({ code: "shutting_down", details: { step: 3 } }),
    );
  });

  it.each([
    ["an unknown kind", packed(9, new Uint8Array(0))],
    ["a length beyond all frames", Uint8Array.of(1, 255, 255, 255, 255)],
    ["an end that is not JSON", packed(2, encoder.encode("{"))],
  ])("refuses %s", (_, bytes) => {
    expect(() => [...new Splitter().push(bytes)]).toThrow(expect.objectContaining({ code: "stream_damaged" }));
  });

  it("that stops before its end is a lost connection, after what it brought", async () => {
    const got: string[] = [];
    const reading = (async () => {
      for await (const { kind } of messages(new Blob([run.slice(0, 16)]).stream())) got.push(kind);
    })();
    await expect(reading).rejects.toMatchObject({ code: "connection_lost" });
    expect(got).toEqual(["alive", "frame"]);
  });
});
