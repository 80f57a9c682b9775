// What the model is given to go on from: the text before the cursor, or as much of its end as fits.

export interface PromptLimits {
  tokens: number;
  characters: number;
}

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
  if (new TextEncoder().encode(tail).length <= limits.tokens) return tail;
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
