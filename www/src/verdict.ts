// A verdict in words a writer can use. Tokens are counted from 1.
import { describeSettings, isRun, plural, type RunTake } from "./takes";
import type { TokenTable } from "./tokens";
import type { Verdict } from "./wire";

export interface Said {
  tone: "good" | "waiting" | "bad";
  short: string;
  /** The whole of it, where there is more to say. */
  long: string | null;
}

type Names = Pick<TokenTable, "name"> | null;

/** Of the server's check. */
export function sayVerdict(take: RunTake, names: Names): Said {
  const { verdict } = take;
  if (verdict === null) {
    return take.run === null
      ? {
          tone: "waiting",
          short: "from a file",
          long: "Opened from a file: no server keeps this run, but Replay checks it here.",
        }
      : { tone: "waiting", short: "not yet verified", long: null };
  }
  return say(verdict, take.start.step, names, { good: "verified", who: "the server" });
}

/** Of a replay in this browser. */
export function sayReplay(take: RunTake, names: Names): Said | null {
  if (take.replay === null) return null;
  const said = say(take.replay, take.start.step, names, {
    good: `replayed here: ${take.tokens.length} of ${plural(take.tokens.length, "token")} equal`,
    who: "the replay",
  });
  return said;
}

function say(verdict: Verdict, first: number, names: Names, words: { good: string; who: string }): Said {
  const name = (token: number | null): string => (token === null ? "nothing" : `${names?.name(token) ?? ""} (${token})`.trim());
  switch (verdict.verdict) {
    case "match":
      return {
        tone: "good",
        short: words.good,
        long: `${words.who === "the server" ? "The server" : "This browser"} recomputed all ${plural(verdict.steps, "token")} and found the same.`,
      };
    case "refused":
      return { tone: "bad", short: "check refused", long: `${verdict.message} (${verdict.code})` };
    case "diverged": {
      const at = verdict.step - first + 1;
      const { expected_token: expected, claimed_token: claimed } = verdict;
      const chose =
        expected === claimed
          ? expected === null
            ? ""
            : ` Both chose ${name(expected)}.`
          : ` The browser chose ${name(claimed)}, ${words.who} chose ${name(expected)}.`;
      return {
        tone: "bad",
        short: `differs from token ${at}`,
        long: `Differs from token ${at}.${chose} ${because(verdict, name)}`,
      };
    }
  }
}

function because(verdict: Extract<Verdict, { verdict: "diverged" }>, name: (token: number | null) => string): string {
  switch (verdict.why) {
    case "token":
      return "Why: text before it, settings, draw and logits are the same, so the token itself was changed.";
    case "logits":
      return `Why: it was chosen from other logits (frame ${verdict.claimed} here, ${verdict.expected} there).`;
    case "settings":
      return `Why: other settings (${describeSettings(verdict.claimed)} here, ${describeSettings(verdict.expected)} there).`;
    case "draw":
      return `Why: another random number (seed ${verdict.claimed.seed} here, ${verdict.expected.seed} there).`;
    case "prompt":
      return `Why: the text before it differs at its token ${verdict.index + 1} (${name(verdict.claimed)} here, ${name(verdict.expected)} there).`;
  }
}

/** What a regeneration has shown. */
export function sayAgain(take: RunTake): string | null {
  return isRun(take) && take.again !== null ? `same text, ${take.again} of ${plural(take.tokens.length, "token")}` : null;
}
