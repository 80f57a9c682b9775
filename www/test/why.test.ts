// “Why this word?”: which token the cursor means, and what is said of it, computed by the sampler itself.
import { Frame, Generator } from "@quillmate/sampler";
import { describe, expect, it } from "vitest";
import { percent, sayReason } from "../src/reasons";
import { TokenTable } from "../src/tokens";
import { spans, standing, tokenAt } from "../src/why";
import type { GeneratorState, Settings } from "../src/wire";

const name = (token: number): string => `w${token}`;
const words = ["", "The", " cat", " sat", "\n", "é", "!"];

function table(): TokenTable {
  const bytes = words.map((word) => new TextEncoder().encode(word));
  // The two halves of é, each a token.
  bytes.push(Uint8Array.of(0xc3), Uint8Array.of(0xa9));
  const view = new DataView(new ArrayBuffer(4 + bytes.reduce((sum, one) => sum + 2 + one.length, 0)));
  view.setUint32(0, bytes.length, true);
  let at = 4;
  for (const one of bytes) {
    view.setUint16(at, one.length, true);
    new Uint8Array(view.buffer).set(one, at + 2);
    at += 2 + one.length;
  }
  return new TokenTable(view.buffer);
}

describe("the cursor", () => {
  const tokens = [1, 2, 3, 7, 8, 6];
  const text = table().text(tokens);
  const all = spans(table(), tokens);
  const at = (is: string, cursor: number): number | null => tokenAt(all, text, is, cursor);

  it("means the token of the character before it", () => {
    expect(text).toBe("The cat saté!");
    expect(all).toEqual([
      { from: 0, to: 3 },
      { from: 3, to: 7 },
      { from: 7, to: 11 },
      { from: 11, to: 11 },
      { from: 11, to: 12 },
      { from: 12, to: 13 },
    ]);
    expect([0, 1, 3, 4, 7, 8, 11, 12, 13].map((cursor) => at(text, cursor))).toEqual([0, 0, 0, 1, 1, 2, 2, 4, 5]);
  });

  it("means none in words the writer has changed, and the same as before in all others", () => {
    const is = "The dog saté!";
    expect(at(is, 3)).toBe(0);
    expect([4, 5, 6, 7].map((cursor) => at(is, cursor))).toEqual([null, null, null, null]);
    expect(at(is, 9)).toBe(2);
    const longer = "The big cat saté!";
    expect(at(longer, longer.length)).toBe(5);
    expect(at(longer, 6)).toBeNull();
    expect(standing(text, longer)({ from: 7, to: 11 })).toEqual({ from: 11, to: 15 });
    expect(at("", 0)).toBeNull();
    expect(at("Dog", 2)).toBeNull();
  });
});

describe("a reason", () => {
  const V = 1000;
  // Of a thousand words, word i is rated −i/10.
  const logits = Float32Array.from({ length: V }, (_, id) => -id / 10);

  function say(
    settings: Settings,
    step = 2,
    frame = Frame.dense(step, logits),
  ): ReturnType<typeof sayReason> & { token: number } {
    const start: GeneratorState = {
      contract: "quillmate-v1",
      format: 1,
      seed: "41",
      step: 0,
      prompt: [0, 1],
      tokens: [],
      settings,
    };
    const run = Generator.fromState(null, { ...start, step, tokens: Array.from({ length: step }, () => 3) });
    const trace = run.trace(frame.logits(run.settings));
    const token = run.stepWith(frame.logits(run.settings));
    const said = sayReason({ trace, vocab: frame.vocab, kept: frame.maxTopK }, { start, tokens: Array(40).fill(3) }, name);
    return { ...said, token };
  }

  it("says place, chance, draw, every stage that counts, and the likeliest five with the chosen one marked", () => {
    const {
      place,
      chance,
      draw,
      stages,
      words: shown,
      token,
    } = say({
      temperature: 0.8,
      top_k: 50,
      top_p: 0.5,
      processors: [
        { name: "repetition_penalty", version: 1, penalty: 1.1, window: 256 },
        { name: "min_p", version: 1, p: 0.05 },
      ],
    });
    expect(place).toBe("token 3 of 40");
    expect(draw).toMatch(/^The draw was 0\.\d{4}\.$/);
    // e^(−i/10) ≥ 0.05 holds up to i = 29.
    expect(stages).toEqual([
      "1,000 words",
      "repetition 1.1",
      "min-p 0.05: 30 left",
      "top-k 50",
      "temperature 0.8",
      expect.stringMatching(/^top-p 0\.5: \d+ left$/) as string,
    ]);
    expect(shown.filter(({ chosen }) => chosen).map(({ id }) => id)).toEqual([token]);
    expect(shown.slice(0, 5).map(({ part }) => part)).toEqual(
      shown
        .slice(0, 5)
        .map(({ part }) => part)
        .toSorted((a, b) => b - a),
    );
    const chosen = shown.find((one) => one.chosen);
    expect(chance).toContain(chosen?.share);
    expect(chance).toMatch(new RegExp(`of ${/(\d+) left$/.exec(stages.at(-1) ?? "")?.[1]} left$`));
  });

  it("shows a chosen word that is none of the five as a sixth, and says so", () => {
    const settings = { temperature: 2, top_k: 0, top_p: 1 };
    const step = [...Array(20).keys()].find((n) => say(settings, n).token > 4);
    if (step === undefined) throw new Error("no such step");
    const { chance, words: shown, stages } = say(settings, step);
    expect(shown).toHaveLength(6);
    expect(shown.at(-1)?.chosen).toBe(true);
    expect(chance).toContain("not one of the five likeliest of 1,000 left");
    expect(stages).toEqual(["1,000 words", "temperature 2"]);
  });

  it("of a sparse frame says of how many kept it was chosen", () => {
    const { stages } = say({ temperature: 1, top_k: 50, top_p: 1 }, 2, Frame.sparse(2, logits, 50));
    expect(stages).toEqual(["of 1,000 words, the 50 kept", "top-k 50"]);
  });

  it("without a draw says so, and compares ratings", () => {
    const {
      chance,
      draw,
      words: shown,
      stages,
    } = say({
      temperature: 0,
      top_k: 0,
      top_p: 1,
      processors: [{ name: "deny", version: 1, tokens: [0] }],
    });
    expect(chance).toBe("always the likeliest");
    expect(draw).toBe("No draw: temperature is 0.");
    expect(stages).toEqual(["1,000 words", "deny (tokens: 1): 999 left", "temperature 0: 1 left"]);
    expect(shown.map(({ id, share, chosen }) => [id, share, chosen])).toEqual([
      [1, "rated -0.10", true],
      [2, "rated -0.20", false],
      [3, "rated -0.30", false],
      [4, "rated -0.40", false],
      [5, "rated -0.50", false],
    ]);
    expect(shown[0]?.part).toBe(1);
  });

  it("tells XTC's own draw, and a word that was the only one left", () => {
    const xtc = say({
      temperature: 1,
      top_k: 0,
      top_p: 1,
      processors: [{ name: "xtc", version: 1, probability: 1, threshold: 0.05 }],
    });
    expect(xtc.stages[1]).toMatch(/^surprise 1 \(threshold 0\.05\), drew 0\.\d\d: 99\d left$/);
    expect(say({ temperature: 1, top_k: 1, top_p: 1 }).chance).toBe("100 %, the only word left");
  });

  it("gives shares a reader can compare", () => {
    expect([1, 0.9999, 0.314, 0.0999, 0.05, 0.0002].map(percent)).toEqual([
      "100 %",
      "over 99 %",
      "31 %",
      "10.0 %",
      "5.0 %",
      "under 0.1 %",
    ]);
  });
});
