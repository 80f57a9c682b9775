import { describe, expect, it } from "vitest";
import { answers, cutTo, limitsOf, promptFor, surelyFits } from "../src/prompt";
import { modelInfo } from "../src/wire";

const words = (text: string): Promise<number> => Promise.resolve(text.split(/\s+/).filter(Boolean).length);
const limits = {
  body_bytes: 4000,
  prompt_tokens: 2000,
  run_tokens: 512,
  constraint_bytes: 65536,
  runs: 8,
  streams: 64,
  frame_bytes: 2 ** 64,
};
const answer = {
  name: "m",
  sha256: "a",
  arithmetic: "x-1",
  tokenizer_sha256: "b",
  vocab: 9,
  context: 2048,
  end_tokens: [0],
  limits,
};
const never = (): Promise<number> => Promise.reject(new Error("not to be counted"));

describe("the prompt", () => {
  it("is the whole text where that fits for certain, uncounted and to the character", async () => {
    expect(await promptFor("a door \n\n", { tokens: 100, characters: 1000 }, never)).toBe("a door \n\n");
  });

  it("begins at a paragraph where the text is too long", async () => {
    const paragraphs = Array.from({ length: 50 }, (_, i) => `Paragraph ${i} has five words.`);
    const prompt = await promptFor(paragraphs.join("\n\n"), { tokens: 60, characters: 1e6 }, words);
    expect(prompt.startsWith("Paragraph ")).toBe(true);
    expect(prompt.endsWith("Paragraph 49 has five words.")).toBe(true);
    expect(await words(prompt)).toBeLessThanOrEqual(60);
    expect(await words(prompt)).toBeGreaterThan(20);
  });

  it("begins at a word where there are no paragraphs, and anywhere where there are no words", () => {
    expect(cutTo("one two three four", 11)).toBe("three four");
    expect(cutTo("x".repeat(100), 10)).toBe("x".repeat(10));
    expect(cutTo("😀".repeat(10), 5)).toBe("😀😀");
  });

  it("leaves room for what is to be written, within what the server takes", () => {
    const model = modelInfo(answer);
    expect(limitsOf(model, 40)).toEqual({ tokens: 2000, characters: 1000 });
    expect(limitsOf(model, 500)).toEqual({ tokens: 1548, characters: 1000 });
    expect(limitsOf(null, 40)).toEqual({ tokens: 2008, characters: Number.POSITIVE_INFINITY });
  });

  it("is not cut to nothing where the server takes nothing", () => {
    const model = modelInfo({ ...answer, limits: { ...limits, prompt_tokens: 0, body_bytes: 0 } });
    expect(limitsOf(model, 40)).toEqual({ tokens: 2008, characters: Number.POSITIVE_INFINITY });
  });

  it("has limits that are checked when the server names them, each of them", () => {
    expect(modelInfo(answer).limits).toEqual(limits);
    for (const name of Object.keys(limits))
      for (const wrong of [undefined, null, "8"])
        expect(() => modelInfo({ ...answer, limits: { ...limits, [name]: wrong } })).toThrow(
          `model.limits.${name} to be a number`,
        );
  });

  it("surely fits where its bytes are not more than its tokens may be", () => {
    expect(surelyFits("é".repeat(5), { tokens: 10, characters: 100 })).toBe(true);
    expect(surelyFits("é".repeat(5), { tokens: 9, characters: 100 })).toBe(false);
    expect(surelyFits("e".repeat(5), { tokens: 100, characters: 4 })).toBe(false);
  });

  it("is answered by a take only where it still stands before it, whole or as the end of more", () => {
    expect(answers("a door", true, "a door")).toBe(true);
    expect(answers("a door", true, "Once a door")).toBe(false);
    expect(answers("a door", false, "Once a door")).toBe(true);
    expect(answers("a door ", undefined, "Once a door")).toBe(true);
    expect(answers("a door", false, "Once a dog")).toBe(false);
  });
});
