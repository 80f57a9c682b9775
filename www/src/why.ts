// “Why this word?”: asked with the cursor on a word, and answered here from the frame its take keeps. While it is open it
// follows the cursor; writing on closes it.
import { complain, type Page, tell } from "./page";
import { sayReason } from "./reasons";
import { type Answered, rangeOf, type State, takeById } from "./state";
import { decidedBy, isRun, reached, type RunTake, tokensOf } from "./takes";
import { Detokenizer, type TokenTable } from "./tokens";

interface Span {
  from: number;
  to: number;
}

/**
 * Where each token's text begins and ends in the text of all. A token that is a part of a character has none until it is
 * whole.
 */
export function spans(table: TokenTable, tokens: readonly number[]): Span[] {
  const text = new Detokenizer(table);
  let at = 0;
  return tokens.map((token) => {
    const from = at;
    at += text.push(token).length;
    return { from, to: at };
  });
}

/** What a writer's edits have left of a take's text: so many characters at its start, so many at its end. */
export function left(was: string, is: string): { start: number; end: number } {
  const most = Math.min(was.length, is.length);
  let start = 0;
  while (start < most && was[start] === is[start]) start++;
  let end = 0;
  while (end < most - start && was.at(-1 - end) === is.at(-1 - end)) end++;
  return { start, end };
}

/** The position of a take's token in the edited text; null if an edit has touched it. */
export function standing(was: string, is: string): (token: Span) => Span | null {
  const { start, end } = left(was, is);
  const by = is.length - was.length;
  return ({ from, to }) => (to <= start ? { from, to } : from >= was.length - end ? { from: from + by, to: to + by } : null);
}

/** The token of the character before the cursor (of the first, at the start); null where the words are the writer's own. */
export function tokenAt(all: readonly Span[], was: string, is: string, cursor: number): number | null {
  const character = Math.max(cursor, 1);
  const place = standing(was, is);
  const found = all.findIndex((span) => {
    const here = place(span);
    return here !== null && here.from < character && character <= here.to;
  });
  return found === -1 ? null : found;
}

/** The run whose words stand in a passage: the writer's own version has them from the take it was made from. */
function drawn(state: State, id: string | undefined): RunTake | undefined {
  const take = takeById(state, id);
  if (take === undefined || isRun(take)) return take;
  const of = takeById(state, take.of);
  return isRun(of) ? of : undefined;
}

/** “token 12 of 40” of the passage */
export const placeOf = (take: RunTake, at: number): string => `token ${at + 1} of ${tokensOf(take, take.tokens).length}`;

export class Asking {
  #asked = 0;
  #said: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly page: Page) {}

  /** At the cursor, or at the passage's last word where the cursor is elsewhere. */
  async open(passage: string | null = null): Promise<void> {
    const { live, editor } = this.page;
    const inside = this.#passageAt(editor.head);
    const asked = passage ?? inside?.id ?? null;
    const range = rangeOf(live.now, asked);
    const take = drawn(live.now, range?.take);
    if (range === undefined || take === undefined || take.tokens.length === 0)
      return tell(this.page, "Put the cursor into a generated passage first: words of your own need no reason.");
    const cursor = inside?.id === range.id ? editor.head : range.to;
    this.page.attend(range.id);
    live.set({ sheet: false });
    await this.#ask(range.id, take, this.#tokenAt(take, range.id, cursor - range.from));
  }

  /** The cursor or the text under it has moved. */
  async follow(): Promise<void> {
    const { live, editor } = this.page;
    const { why } = live.now;
    if (why === null) return;
    const range = this.#passageAt(editor.head);
    const take = drawn(live.now, range?.take);
    if (range === undefined || take === undefined) return this.close();
    const at = this.#tokenAt(take, range.id, editor.head - range.from);
    if (take.id !== why.take.id || at !== why.at) await this.#ask(range.id, take, at);
  }

  async step(by: number): Promise<void> {
    const { why } = this.page.live.now;
    if (why === null || why.at === null) return;
    const at = why.at + by;
    if (at >= 0 && at < tokensOf(why.take, why.take.tokens).length) await this.#ask(why.passage, why.take, at);
  }

  close(): void {
    clearTimeout(this.#said);
    this.#asked++;
    if (this.page.live.now.why !== null) this.page.live.set({ why: null });
  }

  async #ask(passage: string, take: RunTake, at: number | null): Promise<void> {
    const { live, store, sampler } = this.page;
    const asked = ++this.#asked;
    // The previous answer stays until there is another, to avoid flicker.
    const before = live.now.why?.take.id === take.id ? live.now.why.answer : null;
    const decided = at === null ? null : decidedBy(take, at, live.now.takes);
    live.set({ why: { passage, take, at: decided === null ? null : at, answer: decided === null ? null : before } });
    if (at === null || decided === null) return;
    try {
      const { take: by, step } = decided;
      const frame = await store.frame(by.id, step);
      if (frame === undefined) throw new Error("The frame of this word is not kept here.");
      const reason = await sampler.reason(reached({ ...by, tokens: by.tokens.slice(0, step) }), frame);
      // Closed meanwhile, or about another word now.
      if (asked !== this.#asked || live.now.why === null) return;
      const answer = { at, by, step, reason };
      live.set({ why: { passage, take, at, answer } });
      this.#saySoon(take, answer);
    } catch (error) {
      if (asked !== this.#asked) return;
      this.close();
      complain(this.page, error);
    }
  }

  /** Only the word on which the cursor rests is announced. */
  #saySoon(take: RunTake, answer: Answered): void {
    const { live, announce } = this.page;
    const name = (token: number): string => live.now.table?.name(token) ?? `token ${token}`;
    clearTimeout(this.#said);
    this.#said = setTimeout(() => {
      const { chance } = sayReason(answer.reason, answer.by, name);
      announce(`${name(answer.reason.trace.token ?? 0)}, ${placeOf(take, answer.at)}: ${chance}.`);
    }, 400);
  }

  #passageAt(at: number): { id: string; from: number; take: string } | undefined {
    return this.page.editor.ranges.find(({ from, to }) => from <= at && at <= to);
  }

  #tokenAt(take: RunTake, passage: string, cursor: number): number | null {
    const { table } = this.page.live.now;
    return table === null
      ? null
      : tokenAt(spans(table, tokensOf(take, take.tokens)), take.text, this.page.editor.textOf(passage), cursor);
  }
}

/** The range of the word in question, in characters of its passage. */
export function askedSpan({ why, table }: State, text: string): Span | null {
  if (why === null || why.at === null || table === null) return null;
  const span = spans(table, tokensOf(why.take, why.take.tokens))[why.at];
  return span === undefined ? null : standing(why.take.text, text)(span);
}
