// Runs: asked of the server, sampled here, kept as they come, checked at the end.
import * as api from "./api";
import { ApiError, codeOf } from "./errors";
import { complain, newId, type Page, tell } from "./page";
import { promptFor } from "./prompt";
import { toRecord } from "./record";
import type { Carried } from "./sampler.worker";
import { shortSeed } from "./settings";
import { activeTake, current, cutRepeat, isCut, isEdited, nextNumber, takeById, takesOf, type Work } from "./state";
import {
  claimOf,
  firstDifference,
  isRun,
  madeBy,
  plural,
  reached,
  type RunTake,
  sameSettings,
  type Take,
  tokensOf,
} from "./takes";
import { Detokenizer } from "./tokens";
import type { GeneratorState, Settings } from "./wire";

interface Order {
  passage: string;
  prompt: string;
  seed: string;
  settings: Settings;
  length: number;
  /** Where a new passage begins; null when the passage is there. */
  at: number | null;
  repeats?: RunTake;
  /** Given where the run goes on from more than the text's own reading: the state, and the tokens that led to it. */
  from?: { start: GeneratorState; lead: number[] };
  /** Tokens known beforehand, because they agree with a take whose frames are here. */
  known?: { from: RunTake; tokens: number[]; carried: Carried };
}

export class Writing {
  #abort: AbortController | null = null;

  /** Takes the writer stopped while the server could not hear it. */
  readonly #toStop = new Set<string>();

  constructor(private readonly page: Page) {
    // Without a server a stream only seems to be there.
    page.live.listen(() => {
      if (page.live.now.server === "away") this.#abort?.abort();
    });
  }

  /** Goes on from the cursor. */
  async generate(): Promise<void> {
    const { live, editor } = this.page;
    const at = editor.cursor;
    await this.#guard(at, async () => {
      const { settings, length } = live.now;
      await this.#order({
        passage: newId(),
        prompt: await this.#prompt(editor.text.slice(0, at)),
        seed: await this.#seed(),
        settings,
        length,
        at,
      });
    });
  }

  /** The active passage again, differently: the settings as they are set now, and another seed. */
  async newTake(): Promise<void> {
    const { live, editor } = this.page;
    const { active: passage, settings, length } = live.now;
    const range = editor.range(passage);
    if (passage === null || range === undefined) return tell(this.page, "Put the cursor into a generated passage first.");
    await this.#guard(range.from, async () => {
      const prompt = await this.#prompt(editor.text.slice(0, range.from));
      const used = takesOf(live.now, passage).filter(isRun);
      const again = (seed: string): boolean =>
        used.some((take) => take.start.seed === seed && take.prompt === prompt && sameSettings(take.start.settings, settings));
      let seed = await this.#seed();
      while (again(seed)) seed = await this.#freshSeed();
      await this.#order({ passage, prompt, seed, settings, length, at: null });
    });
  }

  /** The take that stands there, asked and sampled again from its own seed and settings: the proof that it can be. */
  async regenerate(): Promise<void> {
    const { live } = this.page;
    const take = activeTake(live.now);
    if (!isRun(take) || live.now.active === null) return tell(this.page, "Put the cursor into a generated passage first.");
    const cut = isCut(live.now, take) ? take : cutRepeat(live.now, take);
    if (cut !== undefined) return this.resume(cut);
    await this.#guard(null, async () => {
      // What the writer changed in the passage by hand stays, as a take of its own; the passage itself comes again.
      if (isEdited(live.now)) await this.show(take.passage, take.id);
      const { seed, settings } = take.start;
      const length = take.reason === "length" || take.reason === "end_token" ? take.length : Math.max(1, take.tokens.length);
      const order = { passage: take.passage, prompt: take.prompt, seed, settings, length, at: null, repeats: take };
      await this.#order({ ...order, ...led(take, take.start) });
    });
  }

  /** A new take that begins with the tokens a preview found to stay, and asks the server for the rest. */
  async goOn(from: RunTake, agree: number, seed: string, settings: Settings, carried: Carried): Promise<void> {
    const { length } = from;
    await this.#guard(null, () =>
      this.#order({
        passage: from.passage,
        prompt: from.prompt,
        seed,
        settings,
        length,
        at: null,
        known: { from, tokens: from.tokens.slice(0, agree), carried },
        ...led(from, { ...from.start, seed, settings }),
      }),
    );
  }

  /** A new take: the tokens before `at` stay, then comes `word`, and the server is asked for what follows. */
  async takeInstead(take: RunTake, at: number, word: number): Promise<void> {
    const { start, passage, prompt } = take;
    const more = [...take.tokens.slice(0, at), word];
    const from = { ...start, step: 0, prompt: [...start.prompt, ...start.tokens, ...more], tokens: [] };
    await this.#guard(null, () =>
      this.#order({
        passage,
        prompt,
        seed: start.seed,
        settings: start.settings,
        length: take.length > more.length ? take.length - more.length : this.page.live.now.length,
        at: null,
        from: { start: from, lead: tokensOf(take, more) },
      }),
    );
  }

  async stop(): Promise<void> {
    const { live } = this.page;
    const { work } = live.now;
    const take = takeById(live.now, work?.take);
    if (work === null || !isRun(take) || take.run === null || work.phase !== "writing") return;
    live.set({ work: { ...work, phase: "stopping" } });
    try {
      // What the server has sampled by now still arrives, then the end.
      await api.stopRun(take.run);
    } catch {
      this.#toStop.add(take.id);
      this.#abort?.abort();
    }
  }

  /** Goes on with a run that was cut short, from the first token that is not here yet. */
  async resume(take: RunTake): Promise<void> {
    await this.#guard(null, async () => {
      if (take.run !== null && this.#toStop.delete(take.id)) await api.stopRun(take.run);
      if (take.repeats === null) {
        await this.#keepHand(take.passage);
        this.page.editor.begin(take.passage, take.id, take.text, null);
      }
      await this.#follow(take);
    });
  }

  /** After a reload or a lost connection: finishes what was cut, then has checked what was not. */
  async catchUp(): Promise<void> {
    const { live } = this.page;
    if (live.now.server !== "ready" || live.now.work !== null) return;
    for (const take of live.now.takes) if (isCut(live.now, take) && live.now.work === null) await this.resume(take);
    for (const take of live.now.takes)
      if (isRun(take) && take.status === "done" && take.run !== null && take.verdict === null && take.repeats === null)
        await this.check(take).catch(() => {});
  }

  /** Has the server recompute a take. */
  async check(take: RunTake): Promise<RunTake> {
    if (take.run === null) return take;
    const checked = { ...take, verdict: await api.verifyRun(take.run, claimOf(take)) };
    await this.#keep(checked);
    // What went into the tokens is looked at where they differ; the verdict stands whether or not that can be had.
    if (checked.verdict.verdict === "diverged") await this.compareWithServer(checked).catch(() => {});
    const kept = takeById(this.page.live.now, take.id);
    return isRun(kept) ? kept : checked;
  }

  /** Says where a take and another record first part: a file, or the server's own. */
  async compare(take: RunTake, other: string, record: unknown): Promise<void> {
    const { sampler, store, announce } = this.page;
    const mine = toRecord(take, await store.frames(take.id));
    const { outcome, paragraph } = await sampler.compare(mine, record).catch((error: unknown) => {
      throw new ApiError("not_a_record", error instanceof Error ? error.message : String(error));
    });
    await this.#keep({ ...take, compared: { other, outcome, paragraph } });
    announce(`Compared with ${other}: ${paragraph}`);
  }

  async compareWithServer(take: RunTake): Promise<void> {
    if (take.run !== null) await this.compare(take, "the server’s record", await api.runRecord(take.run));
  }

  /** Recomputes a take here, from what is stored, without any server. */
  async replay(take: RunTake): Promise<void> {
    const { sampler, store, announce } = this.page;
    try {
      const replay = await sampler.replay(take.start, await store.frames(take.id), claimOf(take));
      await this.#keep({ ...take, replay });
      announce(
        replay.verdict === "match"
          ? `Replayed here: ${plural(take.tokens.length, "token")}, all equal.`
          : `Replayed here: ${replay.message}`,
      );
    } catch (error) {
      complain(this.page, error);
    }
  }

  /** Puts another take in its passage's place. What the writer wrote into the passage is kept as a take first. */
  async show(passage: string, id: string): Promise<void> {
    const { live, editor } = this.page;
    const take = takeById(live.now, id);
    if (take === undefined || live.now.work?.passage === passage) return;
    await this.#keepHand(passage);
    editor.put(passage, take.id, take.text);
    live.set({ active: passage, preview: null });
  }

  async #guard(at: number | null, work: () => Promise<void>): Promise<void> {
    const { live } = this.page;
    if (live.now.work !== null) return;
    if (live.now.server === "loading") return complain(this.page, new ApiError("model_loading", "The model is still loading."));
    if (at === 0) return complain(this.page, new ApiError("prompt_empty", "There is no text before the cursor."));
    live.set({
      notice: null,
      preview: null,
      sheet: false,
      work: { take: "", passage: "", phase: "asking", token: 0, of: 0, repeating: false },
    });
    try {
      await work();
    } catch (error) {
      complain(this.page, error);
    } finally {
      live.set({ work: null });
    }
  }

  async #order(order: Order): Promise<void> {
    const { live, editor, store } = this.page;
    const { passage, prompt, seed, settings, length, at, repeats, known, from } = order;
    const run = await api.createRun(from === undefined ? { prompt, seed, settings, length } : { start: from.start, length });
    const agreed =
      known !== undefined &&
      known.from.model.sha256 === run.model.sha256 &&
      firstDifference(known.from.start.prompt, run.start.prompt) === null
        ? known
        : null;
    const before = repeats === undefined && at === null ? ((await this.#keepHand(passage)) ?? this.#standing(passage)) : null;
    const tokens = agreed?.tokens ?? [];
    const take: RunTake = {
      kind: "run",
      id: newId(),
      story: live.now.story,
      passage,
      number: nextNumber(live.now, passage),
      run: run.id,
      model: run.model,
      prompt,
      length: run.length,
      ...(from === undefined ? {} : { lead: from.lead }),
      start: run.start,
      tokens,
      text: live.now.table?.text([...(from?.lead ?? []), ...tokens]) ?? "",
      checksums: agreed?.carried.checksums ?? [],
      made: await this.page.sampler.release(),
      end_tokens: live.now.model?.end_tokens ?? null,
      status: "writing",
      reason: null,
      verdict: null,
      replay: null,
      again: null,
      repeats: repeats?.id ?? null,
      parted: null,
      replaces: before,
    };
    await store.saveSteps(take, 0, agreed?.carried.frames ?? []);
    live.setTake(take);
    if (repeats === undefined) {
      live.set({ active: passage });
      editor.begin(passage, take.id, take.text, at);
    }
    await this.#follow(take);
  }

  /** Takes the run's frames as they come and samples a token from each, until the end or until the connection breaks. */
  async #follow(first: RunTake): Promise<void> {
    const { live, editor, store, sampler, announce } = this.page;
    const { table } = live.now;
    if (table === null || first.run === null) throw new ApiError("unreachable", "The model's tokens are not known yet.");
    let take: RunTake = { ...first, made: madeBy(first, await sampler.release()) };
    const writer = new Detokenizer(table);
    for (const token of tokensOf(take, take.tokens)) writer.push(token);
    const sentences = new Sentences(announce);
    const abort = new AbortController();
    this.#abort = abort;
    const work = (phase: Work["phase"]): void =>
      live.set({
        work: {
          take: take.id,
          passage: take.passage,
          phase: live.now.work?.phase === "stopping" && phase === "writing" ? "stopping" : phase,
          token: take.tokens.length,
          of: take.length,
          repeating: take.repeats !== null,
        },
      });
    work("writing");
    announce(take.repeats === null ? "Writing." : "Regenerating.");
    try {
      await sampler.begin(take.id, reached(take));
      for await (const message of api.streamRun(first.run, take.start.step + take.tokens.length, abort.signal)) {
        if (message.kind === "frame") {
          const { token, checksum } = await sampler.step(take.id, message.bytes);
          const more = writer.push(token);
          take = { ...take, tokens: [...take.tokens, token], checksums: [...take.checksums, checksum], text: take.text + more };
          take = this.#parted(take);
          // Kept first, shown then: what has been seen is there after any reload.
          await store.saveSteps(take, take.tokens.length - 1, [message.bytes]);
          live.setTake(take);
          if (take.repeats === null) {
            editor.grow(take.passage, take.text);
            sentences.push(more);
          }
          work("writing");
        } else if (message.kind === "end") {
          take = { ...take, status: message.status === "failed" ? "failed" : "done", reason: message.reason };
          await this.#keep(take);
          if (message.status === "failed") throw new ApiError(message.reason ?? "run_failed", "The run failed on the server.");
        }
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        if (["connection_lost", "unreachable"].includes(codeOf(error))) live.set({ server: "away" });
        throw error;
      }
    } finally {
      this.#abort = null;
      void sampler.forget(take.id);
      if (take.repeats === null) editor.commit(take.passage);
      sentences.end();
    }
    if (take.status !== "done") return;
    work("checking");
    await this.#finish(take);
  }

  async #finish(take: RunTake): Promise<void> {
    const { live, store, announce } = this.page;
    let checked = take;
    try {
      checked = await this.check(take);
    } catch (error) {
      if (codeOf(error) !== "unreachable") complain(this.page, error);
    }
    const original = takeById(live.now, take.repeats);
    if (isRun(original)) {
      // Equal to the last token: the proof is noted, and the duplicate let go.
      const proven =
        checked.verdict?.verdict === "match"
          ? { run: checked.run, verdict: checked.verdict, status: "done" as const, reason: original.reason ?? checked.reason }
          : {};
      await this.#keep({ ...original, again: take.tokens.length, ...proven });
      await store.dropRepeat(take.id);
      live.dropTake(take.id);
      announce(`Regenerated: same text, ${take.tokens.length} of ${plural(original.tokens.length, "token")}.`);
      return;
    }
    const said =
      checked.verdict === null ? "not yet verified" : checked.verdict.verdict === "match" ? "verified" : checked.verdict.message;
    announce(`Done: ${plural(take.tokens.length, "token")}, ${said}.`);
  }

  /** A regeneration that leaves its take becomes a take of its own, and is shown. */
  #parted(take: RunTake): RunTake {
    const { live, editor } = this.page;
    const original = takeById(live.now, take.repeats);
    if (!isRun(original)) return take;
    const at = take.tokens.length - 1;
    if (take.tokens[at] === original.tokens[at]) return take;
    const why =
      take.model.sha256 !== original.model.sha256
        ? "model"
        : firstDifference(take.start.prompt, original.start.prompt) === null
          ? "logits"
          : "prompt";
    const parted: RunTake = {
      ...take,
      repeats: null,
      parted: { at, why },
      number: nextNumber(live.now, take.passage),
      replaces: this.#standing(take.passage),
    };
    editor.begin(parted.passage, parted.id, parted.text, null);
    return parted;
  }

  #standing(passage: string): { text: string; take: string } | null {
    const range = this.page.editor.range(passage);
    return range === undefined ? null : { text: this.page.editor.textOf(passage), take: range.take };
  }

  /** If the writer has edited the passage, their version becomes a take. Says what stands there now, if it is that. */
  async #keepHand(passage: string): Promise<{ text: string; take: string } | null> {
    const { live, editor } = this.page;
    const standing = this.#standing(passage);
    const take = current(live.now, passage) ?? takeById(live.now, standing?.take);
    if (standing === null || take === undefined || standing.text === take.text) return null;
    const known = takesOf(live.now, passage).find(({ text }) => text === standing.text);
    const hand: Take = known ?? {
      kind: "hand",
      id: newId(),
      story: live.now.story,
      passage,
      number: nextNumber(live.now, passage),
      text: standing.text,
    };
    if (known === undefined) await this.#keep(hand);
    editor.put(passage, hand.id, hand.text);
    return { text: hand.text, take: hand.id };
  }

  async #keep(take: Take): Promise<void> {
    this.page.live.setTake(take);
    await this.page.store.saveTake(take);
  }

  async #seed(): Promise<string> {
    return this.page.live.now.seed ?? this.#freshSeed();
  }

  async #freshSeed(): Promise<string> {
    return shortSeed(await this.page.sampler.freshSeed());
  }

  async #prompt(text: string): Promise<string> {
    const { model, length } = this.page.live.now;
    const limit = (name: string): number => {
      const value = model?.limits[name];
      return typeof value === "number" && value > 0 ? value : Number.POSITIVE_INFINITY;
    };
    const tokens = Math.min(limit("prompt_tokens"), (model?.context ?? 2048) - length);
    return promptFor(
      text,
      { tokens, characters: Math.min(limit("prompt_bytes"), limit("body_bytes")) / 4 },
      async (tail) => (await api.tokenize(tail)).length,
    );
  }
}

/** How a take that goes on from a chosen word is asked for: by its state, since the word need not be what its text is read as. */
const led = (take: RunTake, start: GeneratorState): Pick<Order, "from"> =>
  take.lead === undefined ? {} : { from: { start, lead: take.lead } };

/** Screen readers hear sentences, not letters. */
class Sentences {
  #text = "";
  constructor(private readonly announce: (text: string) => void) {}
  push(more: string): void {
    this.#text += more;
    const whole = /^[\s\S]*[.!?…]["”’]?(?=\s)/.exec(this.#text)?.[0];
    if (whole === undefined) return;
    this.announce(whole.trim());
    this.#text = this.#text.slice(whole.length);
  }
  end(): void {
    if (this.#text.trim() !== "") this.announce(this.#text.trim());
    this.#text = "";
  }
}
