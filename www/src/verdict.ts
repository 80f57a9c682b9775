// A verdict in words a writer can use: what was compared, by whom and when, and what has come since. Tokens are counted
// from 1.
import { type Checked, describeSettings, isRun, plural, type RunTake } from "./takes";
import type { TokenTable } from "./tokens";
import type { Verdict } from "./wire";

export interface Said {
  tone: "good" | "waiting" | "bad";
  short: string;
  /** The full text. */
  long: string;
}

/** How the text differs from the take. */
export interface Beside {
  /** The writer has changed the passage's text by hand. */
  edited: boolean;
  /** The text before the passage differs from the take's prompt. */
  elsewhere: boolean;
}

type Names = Pick<TokenTable, "name"> | null;

/** Of the server's check. */
export function sayVerdict(take: RunTake, names: Names, beside: Beside): Said {
  if (take.verdict === null) {
    return take.run === null
      ? {
          tone: "waiting",
          short: "from a file",
          long: "Opened from a file: no server keeps this run, but Replay checks it here.",
        }
      : { tone: "waiting", short: "not yet verified", long: "The server has not recomputed this take yet. Verify asks it to." };
  }
  return say(take.verdict, take, names, beside, { good: "verified", who: "The server" });
}

/** Of a replay in this browser. */
export function sayReplay(take: RunTake, names: Names, beside: Beside): Said | null {
  if (take.replay === null) return null;
  const good = `replayed here: ${take.replay.tokens} of ${plural(take.tokens.length, "token")} equal`;
  return say(take.replay, take, names, beside, { good, who: "This browser" });
}

function say(
  { verdict, tokens, when }: Checked,
  take: RunTake,
  names: Names,
  { edited, elsewhere }: Beside,
  words: { good: string; who: string },
): Said {
  const name = (token: number | null): string => (token === null ? "nothing" : `${names?.name(token) ?? ""} (${token})`.trim());
  const all = take.tokens.length;
  const at = when === null ? "" : ` ${sayWhen(when)}`;
  switch (verdict.verdict) {
    case "match": {
      const count = tokens === all ? `all ${plural(tokens, "token")}` : `the first ${tokens} of ${plural(all, "token")}`;
      const said = [
        `${words.who} recomputed ${count}${at} and found the same: they come from seed ${take.start.seed}, ${describeSettings(take.start.settings)}, and the text the take began from.`,
        tokens < all
          ? `The ${plural(all - tokens, "token")} after them came later and ${all - tokens === 1 ? "was" : "were"} not looked at.`
          : "",
        edited ? "That is the take itself. What you changed in it by hand is not part of it." : "",
        elsewhere ? "The text before it has changed since: the take answers the beginning as it was." : "",
      ];
      const long = said.filter((one) => one !== "").join(" ");
      const short =
        tokens < all ? `${words.good === "verified" ? "verified" : "replayed here"} up to token ${tokens} of ${all}` : words.good;
      return tokens < all
        ? { tone: "waiting", short, long }
        : edited
          ? { tone: "waiting", short: `${short}, before your edits`, long }
          : { tone: "good", short, long };
    }
    case "refused":
      return { tone: "bad", short: "check refused", long: `${verdict.message} (${verdict.code})` };
    case "diverged": {
      const first = verdict.step - take.start.step + 1;
      const { expected_token: expected, claimed_token: claimed } = verdict;
      const chose =
        expected === claimed
          ? expected === null
            ? ""
            : ` Both chose ${name(expected)}.`
          : ` The browser chose ${name(claimed)}, ${words.who === "The server" ? "the server" : "the replay"} chose ${name(expected)}.`;
      return {
        tone: "bad",
        short: `differs from token ${first}`,
        long: `Differs from token ${first}.${chose} ${because(verdict, name)}${at === "" ? "" : ` Compared${at}.`}`,
      };
    }
  }
}

const today = new Intl.DateTimeFormat("en", { timeStyle: "short" });
const earlier = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
/** “at 8:41 PM”, “on Nov 30, 2026, 8:41 PM” */
export const sayWhen = (when: number, now = Date.now()): string =>
  new Date(when).toDateString() === new Date(now).toDateString() ? `at ${today.format(when)}` : `on ${earlier.format(when)}`;

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

/** The result of a regeneration. */
export function sayAgain(take: RunTake, { edited, elsewhere }: Beside): string | null {
  if (!isRun(take) || take.again === null) return null;
  const { tokens } = take.again;
  const all = take.tokens.length;
  const same = tokens === all ? `same text, ${tokens} of ${plural(all, "token")}` : `same text up to token ${tokens} of ${all}`;
  return `${same}${edited ? ", before your edits" : ""}${elsewhere ? ", to the beginning as it was" : ""}`;
}
