// Where the model would begin to read, if it were asked to go on from the cursor: of a long text it reads the end alone.
import * as api from "./api";
import type { Page } from "./page";
import { limitsOf, promptFor, surelyFits } from "./prompt";

const REST_MS = 400;

export class Reading {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked: AbortController | null = null;

  #last = "";

  constructor(private readonly page: Page) {
    page.live.listen(() => {
      const { server, work, model, length, story } = page.live.now;
      const now = [server, work === null, model?.sha256, length, story].join();
      if (now !== this.#last) this.changed();
      this.#last = now;
    });
  }

  /** The text, the cursor or what there is to read it has changed. A text that surely fits costs nothing; others are counted once it rests. */
  changed(): void {
    const { live, editor } = this.page;
    clearTimeout(this.#timer);
    this.#asked?.abort();
    if (surelyFits(editor.before(editor.cursor), limitsOf(live.now.model, live.now.length))) this.#say(null);
    else this.#timer = setTimeout(() => void this.#look().catch(() => {}), REST_MS);
  }

  async #look(): Promise<void> {
    const { live, editor } = this.page;
    const { model, length, server, work } = live.now;
    if (server !== "ready" || work !== null) return;
    const text = editor.before(editor.cursor);
    const asked = new AbortController();
    this.#asked = asked;
    const prompt = await promptFor(
      text,
      limitsOf(model, length),
      async (tail) => (await api.tokenize(tail, asked.signal)).length,
    );
    if (!asked.signal.aborted) this.#say(prompt.length === text.length ? null : text.length - prompt.length);
  }

  #say(reads: number | null): void {
    if (this.page.live.now.reads !== reads) this.page.live.set({ reads });
  }
}
