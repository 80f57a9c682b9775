import { describe, expect, it } from "vitest";
import { Detokenizer, TokenTable } from "../src/tokens";

function table(...tokens: (string | number[])[]): ArrayBuffer {
  const all = tokens.map((token) => (typeof token === "string" ? [...new TextEncoder().encode(token)] : token));
  const bytes = [tokens.length, 0, 0, 0, ...all.flatMap((one) => [one.length & 255, one.length >> 8, ...one])];
  return Uint8Array.from(bytes).buffer;
}

describe("the token table", () => {
  const tokens = new TokenTable(table("", " door", [0xe2, 0x80], [0x94], "\n", [0xef, 0xbb, 0xbf]));

  it("shows half a character when it is whole", () => {
    const text = new Detokenizer(tokens);
    expect([1, 2, 3, 1].map((id) => text.push(id))).toEqual([" door", "", "\u2014", " door"]);
  });

  it("leaves a half character at the end out", () => {
    expect(tokens.text([1, 2])).toBe(" door");
  });

  it("keeps a byte order mark, which is text like any other", () => {
    expect(tokens.text([5])).toBe("\ufeff");
  });

  it("names tokens so that each can be told", () => {
    expect(tokens.name(1)).toBe("“\u00a0door”");
    expect(tokens.name(2)).toBe("the bytes e2 80");
    expect(tokens.name(4)).toBe("“↵”");
    expect(tokens.name(0)).toBe("the special token 0");
    expect(tokens.name(null)).toBe("nothing");
  });

  it.each([
    ["cut short", table("a", "b").slice(0, -1)],
    ["with bytes to spare", Uint8Array.from([...new Uint8Array(table("a")), 0]).buffer],
    ["with a forged count", Uint8Array.of(255, 255, 255, 255).buffer],
    ["empty", new ArrayBuffer(0)],
  ])("is refused %s", (_, bytes) => {
    expect(() => new TokenTable(bytes)).toThrow(expect.objectContaining({ code: "unexpected_answer" }));
  });
});
