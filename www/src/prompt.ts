// What the model is given to go on from: the text before the cursor, or as much of its end as fits.
import type { Limits, ModelInfo } from "./wire";

export interface PromptLimits {
  tokens: number;
  characters: number;
}

/** What the model and its server can read where so many tokens are to follow. */
export function limitsOf(model: ModelInfo | null, length: number): PromptLimits {
  // With a limit of 0 nothing fits; the server refuses the text, and says why.
  const limit = (name: keyof Limits): number => model?.limits[name] || Number.POSITIVE_INFINITY;
  return {
    tokens: Math.max(1, Math.min(limit("prompt_tokens"), (model?.context ?? 2048) - length)),
    characters: limit("body_bytes") / 4,
  };
}

/** Whether all of a text can be read for certain, without counting: a token is at least one byte. */
export const surelyFits = (text: string, { tokens, characters }: PromptLimits): boolean =>
  text.length <= characters && (text.length * 3 <= tokens || new TextEncoder().encode(text).length <= tokens);

/** Without the spaces at its end: what follows brings its own. */
export const trimmed = (text: string): string => text.replace(/[ \t\u00a0]+$/, "");

/** Whether a take's prompt is what stands before its place. */
export const answers = (prompt: string, whole: boolean | undefined, before: string): boolean =>
  whole === true ? before === trimmed(prompt) : before.endsWith(trimmed(prompt));

/**
 * A text that is too long is cut at the start of a paragraph (of a line or a word where a paragraph alone is too long).
 * A token is at least one byte, so a text with fewer bytes than tokens allowed needs no counting.
 */
export async function promptFor(
  text: string,
  limits: PromptLimits,
  countTokens: (text: string) => Promise<number>,
): Promise<string> {
  let tail = cutTo(text, limits.characters);
  if (surelyFits(tail, limits)) return tail;
  // More characters than this hardly ever fit; counting them all would only cost time.
  tail = cutTo(tail, limits.tokens * 8);
  for (;;) {
    const tokens = await countTokens(tail);
    if (tokens <= limits.tokens || tail.length <= 1) return tail;
    tail = cutTo(tail, Math.min(tail.length - 1, Math.floor((tail.length * limits.tokens) / tokens)));
  }
}

/** The longest end of the text that has at most `most` characters and starts where a reader would start. */
export function cutTo(text: string, most: number): string {
  if (text.length <= most) return text;
  const earliest = text.length - most;
  for (const start of [/\n\s*\n\s*/g, /\n\s*/g, /[.!?]["”’]?\s+/g, /\s+/g]) {
    start.lastIndex = Math.max(0, earliest - 1);
    for (let found = start.exec(text); found !== null; found = start.exec(text)) {
      const at = found.index + found[0].length;
      // A cut that leaves less than a third gives up too much: try a finer one.
      if (text.length - at < most / 3) break;
      if (at >= earliest) return text.slice(at);
    }
  }
  const half = text.charCodeAt(earliest) >= 0xdc00 && text.charCodeAt(earliest) <= 0xdfff;
  return text.slice(half ? earliest + 1 : earliest);
}
