import { describe, expect, it } from "vitest";
import { cutTo, promptFor } from "../src/prompt";

const words = (text: string): Promise<number> => Promise.resolve(text.split(/\s+/).filter(Boolean).length);
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
});
