// While a slider moves: how many tokens of this take would stay the same? Computed from stored frames.
import { complain, type Page } from "./page";
import { activeTake, isEdited, type Preview } from "./state";
import { isRun, type RunTake, tokensOf } from "./takes";
import type { Settings } from "./wire";
import type { Writing } from "./writing";

export class Previewer {
  #loaded: string | null = null;
  #busy = false;
  #again = false;

  constructor(
    private readonly page: Page,
    private readonly writing: Writing,
  ) {}

  /** Called on every movement. While an answer is computed only the latest movement is queued. */
  async update(settings: Settings, seed: string | null): Promise<void> {
    const { live } = this.page;
    const take = activeTake(live.now);
    if (!isRun(take) || live.now.work !== null || take.tokens.length === 0) return;
    const before = live.now.preview?.take === take.id ? live.now.preview.result : null;
    live.set({
      preview: {
        take: take.id,
        settings,
        seed: seed ?? take.start.seed,
        result: before,
        answered: live.now.preview?.answered ?? "",
      },
    });
    this.#again = true;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#compute();
      }
    } catch (error) {
      live.set({ preview: null });
      complain(this.page, error);
    } finally {
      this.#busy = false;
    }
  }

  async #compute(): Promise<void> {
    const { live, sampler } = this.page;
    const asked = live.now.preview;
    const take = activeTake(live.now);
    if (asked === null || !isRun(take) || take.id !== asked.take) return;
    await this.#load(take);
    const result = await sampler.agreement(take.id, take.start, take.tokens, asked.seed, asked.settings);
    const now = live.now.preview;
    // A preview that was closed meanwhile stays closed.
    if (now !== null && now.take === asked.take) live.set({ preview: { ...now, result, answered: asked.seed } });
  }

  async #load(take: RunTake): Promise<void> {
    const key = `${take.id}:${take.tokens.length}`;
    if (this.#loaded === key) return;
    this.#loaded = null;
    await this.page.sampler.load(take.id, await this.page.store.frames(take.id));
    this.#loaded = key;
  }

  close(): void {
    if (this.page.live.now.preview !== null) this.page.live.set({ preview: null });
  }

  /** “Continue from there”: keeps the equal tokens and asks the server for the rest. */
  async goOn(): Promise<void> {
    const { live, sampler } = this.page;
    const { preview } = live.now;
    const take = activeTake(live.now);
    if (preview === null || preview.result === null || preview.result.parts === null || !isRun(take)) return;
    try {
      await this.#load(take);
      const { agree } = preview.result;
      const carried = await sampler.carry(take.id, agree, preview.settings);
      await this.writing.goOn(take, agree, preview.seed, preview.settings, carried);
    } catch (error) {
      complain(this.page, error);
    }
  }

  /** What to mark in the text; nothing if the writer's edits have moved the words. */
  marks(): { passage: string; stays: number; instead: string } | null {
    const { now } = this.page.live;
    const { preview, table } = now;
    const take = activeTake(now);
    if (!isRun(take) || preview === null || preview.take !== take.id || table === null || isEdited(now)) return null;
    const { agree, parts } = preview.result ?? { agree: 0, parts: null };
    if (parts === null) return null;
    return {
      passage: take.passage,
      stays: table.text(tokensOf(take, take.tokens.slice(0, agree))).length,
      instead: parts.at === "token" ? table.text([parts.now]) || table.name(parts.now) : "…?",
    };
  }
}

/** The preview in a sentence. Tokens are counted from 1. */
export function sayPreview({ result }: Preview, name: (token: number) => string): string {
  if (result === null) return "Looking…";
  const { agree, of, parts } = result;
  if (parts === null) return of === 1 ? "The one token stays." : `All ${of} tokens stay: this gives the same text.`;
  const stay = agree === 0 ? "Nothing stays" : `${agree} of ${of} tokens ${agree === 1 ? "stays" : "stay"}`;
  if (parts.at === "token") return `${stay}; token ${agree + 1} would be ${name(parts.now)} instead of ${name(parts.was)}.`;
  return `${agree === 0 ? "That cannot be told from here" : `${stay}, further cannot be told from here`}: only the ${parts.maxTopK ?? "best"} likeliest words were kept, and these settings need more. The server knows the rest.`;
}
