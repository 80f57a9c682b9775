// Runs: requested from the server, sampled here, saved as they arrive, verified at the end.
import * as api from "./api";
import { ApiError, codeOf } from "./errors";
import { complain, newId, type Page, tell } from "./page";
import { answers, limitsOf, promptFor } from "./prompt";
import { toRecord } from "./record";
import type { Carried } from "./sampler.worker";
import { shortSeed } from "./settings";
import { activeTake, cutRepeat, isCut, isEdited, nextNumber, takeById, takesOf, type Work } from "./state";
import {
  claimOf,
  firstDifference,
  type HandTake,
  isRun,
  joinOf,
  madeBy,
  plural,
  reached,
  type RunTake,
  runTake,
  sameSettings,
  type Take,
  tokensOf,
} from "./takes";
import { Detokenizer } from "./tokens";
import type { GeneratorState, Settings } from "./wire";

interface Order {
  passage: string;
  prompt: string;
  /** The prompt is the whole text before the passage, not only its end. */
  whole: boolean | undefined;
  seed: string;
  settings: Settings;
  length: number;
  repeats?: RunTake;
  /** Given where the run goes on from more than the text's own reading: the state, the tokens that led to it, and their take. */
  from?: { start: GeneratorState; lead: number[]; branch: string | undefined };
  /** Tokens known beforehand, because they agree with a take whose frames are here. */
  known?: { from: RunTake; tokens: number[]; carried: Carried };
}

/** Why work ends when the writer leaves its story. */
const LEFT = new DOMException("Another story is opened.", "AbortError");

export class Writing {
  /** The current work, and how to end it. */
  #work: { abort: AbortController; done: Promise<void> } | null = null;

  /** Takes the writer stopped while the server was not reachable. */
  readonly #toStop = new Set<string>();

  constructor(private readonly page: Page) {
    // Without a server a stream only seems to be there.
    page.live.listen(() => {
      const { server, work } = page.live.now;
      if (server === "away" && work !== null && work.phase !== "asking") this.#work?.abort.abort();
    });
  }

  get #signal(): AbortSignal | undefined {
    return this.#work?.abort.signal;
  }

  /** Continues from the cursor. */
  async generate(): Promise<void> {
    const { live, editor } = this.page;
    const at = editor.cursor;
    const text = editor.before(at);
    await this.#guard(text, async () => {
      const { settings, length, seed: fixed } = live.now;
      // The writer may type while the request is pending.
      editor.manuscript.pin(at);
      const { prompt, whole } = await this.#prompt(text);
      const place = this.#lostAt(prompt);
      const same = (seed: string): RunTake | undefined =>
        usedIn(place === null ? [] : takesOf(live.now, place), seed, settings, prompt);
      const again = fixed === null ? undefined : same(fixed);
      if (place !== null && again !== undefined && again.status === "done" && again.length === length) {
        this.#insert(place, again, editor.pinned ?? at);
        return tell(
          this.page,
          `Seed ${again.start.seed} gave take ${again.number} here before, with these settings: it is back.`,
        );
      }
      const seed = fixed ?? (await this.#freshSeed((one) => same(one) !== undefined));
      await this.#order({ passage: place ?? newId(), prompt, whole, seed, settings, length });
    });
  }

  /** Another take of the active passage, with the current settings and another seed. */
  async newTake(): Promise<void> {
    const { live, editor } = this.page;
    const { active: passage, settings, length, seed: fixed } = live.now;
    const range = editor.range(passage);
    if (passage === null || range === undefined) return tell(this.page, "Put the cursor into a generated passage first.");
    const text = editor.before(range.from);
    await this.#guard(text, async () => {
      const { prompt, whole } = await this.#prompt(text);
      const same = (seed: string): RunTake | undefined => usedIn(takesOf(live.now, passage), seed, settings, prompt);
      const used = fixed === null ? undefined : same(fixed);
      if (used !== undefined) {
        this.page.point("seed");
        throw new ApiError(
          "seed_used",
          `Seed ${used.start.seed} with these settings gave take ${used.number}, and would give it again. Type another seed, or have a fresh one each time.`,
        );
      }
      const seed = fixed ?? (await this.#freshSeed((one) => same(one) !== undefined));
      await this.#order({ passage, prompt, whole, seed, settings, length });
    });
  }

  /** Requests and samples the current take again with its own seed and settings, to show that it is reproduced. */
  async regenerate(): Promise<void> {
    const { live } = this.page;
    const take = activeTake(live.now);
    if (!isRun(take) || live.now.active === null) return tell(this.page, "Put the cursor into a generated passage first.");
    const cut = isCut(live.now, take) ? take : cutRepeat(live.now, take);
    if (cut !== undefined) return this.resume(cut);
    await this.#guard(null, async () => {
      // What the writer changed in the passage by hand stays, as a take of its own; the passage itself comes again.
      if (isEdited(live.now)) this.#show(take);
      const { seed, settings } = take.start;
      const length = take.reason === "length" || take.reason === "end_token" ? take.length : Math.max(1, take.tokens.length);
      const { passage, prompt, whole } = take;
      await this.#order({ passage, prompt, whole, seed, settings, length, repeats: take, ...led(take, take.start) });
    });
  }

  /** A new take that starts with the tokens a preview found equal and asks the server for the rest. */
  async goOn(from: RunTake, agree: number, seed: string, settings: Settings, carried: Carried): Promise<void> {
    const { length, passage, prompt, whole } = from;
    await this.#guard(null, () =>
      this.#order({
        passage,
        prompt,
        whole,
        seed,
        settings,
        length,
        known: { from, tokens: from.tokens.slice(0, agree), carried },
        ...led(from, { ...from.start, seed, settings }),
      }),
    );
  }

  /** A new take: keeps the tokens before `at`, adds `word` and asks the server for the rest. */
  async takeInstead(take: RunTake, at: number, word: number): Promise<void> {
    const { start, passage, prompt, whole } = take;
    const more = [...take.tokens.slice(0, at), word];
    const from = { ...start, step: 0, prompt: [...start.prompt, ...start.tokens, ...more], tokens: [] };
    await this.#guard(null, () =>
      this.#order({
        passage,
        prompt,
        whole,
        seed: start.seed,
        settings: start.settings,
        length: take.length > more.length ? take.length - more.length : this.page.live.now.length,
        from: { start: from, lead: tokensOf(take, more), branch: take.id },
      }),
    );
  }

  /** Ends what is under way, whatever it is. While a passage is written the server is told; the second time, not even that is waited for. */
  async stop(): Promise<void> {
    const { live } = this.page;
    const { work } = live.now;
    const abort = this.#work?.abort;
    if (work === null || abort === undefined) return;
    const take = takeById(live.now, work.take);
    if (!isRun(take) || take.run === null || work.phase === "asking" || work.phase === "checking") return abort.abort();
    if (work.phase === "stopping") {
      this.#toStop.add(take.id);
      return abort.abort();
    }
    live.set({ work: { ...work, phase: "stopping" } });
    try {
      // What the server has sampled by now still arrives, then the end.
      await api.stopRun(take.run);
    } catch {
      this.#toStop.add(take.id);
      abort.abort();
    }
  }

  /** Detaches from the current work without ending it: it continues when its story is opened again. */
  async leave(): Promise<void> {
    const work = this.#work;
    work?.abort.abort(LEFT);
    await work?.done;
  }

  /** Resumes an interrupted run from the first token that has not arrived. */
  async resume(take: RunTake): Promise<void> {
    await this.#guard(null, async () => {
      if (take.run !== null && this.#toStop.has(take.id)) {
        await api.stopRun(take.run);
        this.#toStop.delete(take.id);
      }
      if (take.repeats === null) {
        this.#keepHand(take.passage);
        this.#begin(take, this.#placeOf(take));
      }
      await this.#follow(take);
    });
  }

  /** After a reload or a lost connection: finishes interrupted takes, then verifies unverified ones. */
  async catchUp(): Promise<void> {
    const { live } = this.page;
    if (live.now.server !== "ready" || live.now.work !== null) return;
    const { story } = live.now;
    const here = (): boolean => live.now.story === story && live.now.server === "ready" && live.now.work === null;
    for (const take of live.now.takes) if (here() && isCut(live.now, take)) await this.resume(take);
    for (const { id } of live.now.takes) {
      const take = takeById(live.now, id);
      if (!here() || !isRun(take) || take.status !== "done" || take.run === null || take.repeats !== null) continue;
      if (take.verdict === null || take.verdict.tokens < take.tokens.length) await this.check(take).catch(() => {});
    }
  }

  /** Asks the server to recompute a take. */
  async check(take: RunTake): Promise<RunTake> {
    if (take.run === null) return take;
    const verdict = await api.verifyRun(take.run, claimOf(take), this.#signal);
    await this.#mark(take, { verdict: { verdict, tokens: take.tokens.length, when: Date.now() } });
    // What went into the tokens is looked at where they differ; the verdict stands whether or not that can be had.
    if (verdict.verdict === "diverged") await this.compareWithServer(take).catch(() => {});
    const kept = takeById(this.page.live.now, take.id);
    return isRun(kept) ? kept : take;
  }

  /** Says where a take and another record first differ: a file, or the server's own. */
  async compare(take: RunTake, other: string, record: unknown): Promise<void> {
    const { sampler, store, announce } = this.page;
    const mine = toRecord(take, await store.frames(take.id));
    const { outcome, paragraph } = await sampler.compare(mine, record).catch((error: unknown) => {
      throw new ApiError("not_a_record", error instanceof Error ? error.message : String(error));
    });
    await this.#mark(take, { compared: { other, outcome, paragraph, tokens: take.tokens.length, when: Date.now() } });
    announce(`Compared with ${other}: ${paragraph}`);
  }

  async compareWithServer(take: RunTake): Promise<void> {
    if (take.run !== null) await this.compare(take, "the server’s record", await api.runRecord(take.run, this.#signal));
  }

  /** Recomputes a take here, from what is stored, without any server. */
  async replay(take: RunTake): Promise<void> {
    const { sampler, store, announce } = this.page;
    try {
      const frames = (await store.frames(take.id)).slice(0, take.tokens.length);
      const verdict = await sampler.replay(take.start, frames, claimOf(take));
      await this.#mark(take, { replay: { verdict, tokens: take.tokens.length, when: Date.now() } });
      announce(
        verdict.verdict === "match"
          ? `Replayed here: ${plural(take.tokens.length, "token")}, all equal.`
          : `Replayed here: ${verdict.message}`,
      );
    } catch (error) {
      complain(this.page, error);
    }
  }

  /** Shows another take of a passage. The writer's edits of the passage are first saved as a take. */
  show(passage: string, id: string): void {
    const { live } = this.page;
    const take = takeById(live.now, id);
    if (take !== undefined && live.now.work?.passage !== passage) this.#show(take);
  }

  #show(take: Take): void {
    const { live, editor, attend } = this.page;
    this.#keepHand(take.passage);
    editor.manuscript.put(take.passage, take.id, take.text, joinOf(take));
    live.set({ preview: null });
    attend(take.passage);
  }

  /** Inserts a passage that is no longer in the text at the cursor. */
  putBack(take: Take): void {
    this.#insert(take.passage, take, this.page.editor.cursor);
  }

  #insert(passage: string, take: Take, at: number): void {
    const { editor, attend } = this.page;
    editor.manuscript.insert(passage, take.id, take.text, at, this.#cutOff(at));
    attend(passage);
  }

  /** Runs one piece of work at a time, which the writer can stop. `text` is the model's prompt, if any. */
  async #guard(text: string | null, work: () => Promise<void>): Promise<void> {
    const { live, editor } = this.page;
    if (live.now.work !== null || editor.locked) return;
    if (live.now.server === "loading") return complain(this.page, new ApiError("model_loading", "The model is still loading."));
    if (text === "") return complain(this.page, new ApiError("prompt_empty", "There is no text before the cursor."));
    live.set({
      notice: null,
      preview: null,
      sheet: false,
      work: { take: "", passage: "", phase: "asking", token: 0, of: 0, repeating: false },
    });
    const abort = new AbortController();
    const done = this.#run(work, abort);
    this.#work = { abort, done };
    await done;
  }

  async #run(work: () => Promise<void>, { signal }: AbortController): Promise<void> {
    // After `#work` is set.
    await Promise.resolve();
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) complain(this.page, error);
      else if (signal.reason !== LEFT && this.page.live.now.work?.phase === "asking")
        tell(this.page, "Stopped before anything was written.");
    } finally {
      this.#work = null;
      this.page.editor.manuscript.pin(null);
      this.page.live.set({ work: null });
    }
  }

  async #order(order: Order): Promise<void> {
    const { live, editor, store, attend } = this.page;
    const { passage, prompt, whole, seed, settings, length, repeats, known, from } = order;
    const run = await api.createRun(
      from === undefined ? { prompt, seed, settings, length } : { start: from.start, length },
      this.#signal,
    );
    const agreed =
      known !== undefined &&
      known.from.model.sha256 === run.model.sha256 &&
      firstDifference(known.from.start.prompt, run.start.prompt) === null
        ? known
        : null;
    const made = await this.page.sampler.release();
    const there = repeats === undefined && editor.range(passage) !== undefined;
    const before = there ? (this.#keepHand(passage) ?? this.#standing(passage)) : null;
    const tokens = agreed?.tokens ?? [];
    const take = runTake({
      id: newId(),
      story: live.now.story,
      passage,
      number: nextNumber(live.now, passage),
      run: run.id,
      model: run.model,
      prompt,
      whole,
      length: run.length,
      lead: from?.lead,
      branch: from?.branch,
      start: run.start,
      tokens,
      text: live.now.table?.text([...(from?.lead ?? []), ...tokens]) ?? "",
      checksums: agreed?.carried.checksums ?? [],
      made,
      end_tokens: live.now.model?.end_tokens ?? null,
      repeats: repeats?.id ?? null,
      replaces: before,
    });
    live.setTake(take);
    if (repeats === undefined) {
      this.#begin(take, editor.pinned);
      attend(passage);
    }
    try {
      await store.saveSteps(take, 0, agreed?.carried.frames ?? []);
    } catch (error) {
      if (repeats === undefined) editor.manuscript.commit(passage);
      throw error;
    }
    await this.#follow(take);
  }

  /** Opens the take's passage for writing, or a new one at a place. */
  #begin(take: RunTake, at: number | null): void {
    const { editor } = this.page;
    const place = editor.range(take.passage)?.from ?? at;
    const head = place === null ? undefined : this.#cutOff(place);
    const join = joinOf(take) ?? "";
    editor.manuscript.begin(take.passage, take.id, take.text, at, head === undefined ? { join } : { join, head });
  }

  /** Where a take whose passage is not in the text belongs: after the words it goes on from, if they are there. */
  #placeOf(take: RunTake): number | null {
    const { editor } = this.page;
    if (answers(take.prompt, take.whole, editor.before(editor.cursor))) return editor.cursor;
    const at = editor.text.lastIndexOf(take.prompt);
    return at === -1 ? null : at + take.prompt.length;
  }

  /** A passage that an undo has taken off this very place: what is generated here is another take of it. */
  #lostAt(prompt: string): string | null {
    const { live, editor } = this.page;
    const lost = live.now.takes.filter(
      (take): take is RunTake =>
        isRun(take) && take.prompt === prompt && take.repeats === null && editor.range(take.passage) === undefined,
    );
    return lost.at(-1)?.passage ?? null;
  }

  /** Takes the run's frames as they come and samples a token from each, until the end or until the connection breaks. */
  async #follow(first: RunTake): Promise<void> {
    const { live, editor, store, sampler, announce } = this.page;
    let take = first;
    const sentences = new Sentences(announce);
    const signal = this.#signal ?? new AbortController().signal;
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
      const { table } = live.now;
      if (table === null || first.run === null) throw new ApiError("unreachable", "The model's tokens are not known yet.");
      const writer = new Detokenizer(table);
      for (const token of tokensOf(take, take.tokens)) writer.push(token);
      take = { ...take, made: madeBy(first, await sampler.release()) };
      await sampler.begin(take.id, reached(take));
      for await (const message of api.streamRun(first.run, take.start.step + take.tokens.length, signal)) {
        if (message.kind === "frame") {
          const { token, checksum } = await sampler.step(take.id, message.bytes);
          const more = writer.push(token);
          take = { ...take, tokens: [...take.tokens, token], checksums: [...take.checksums, checksum], text: take.text + more };
          take = this.#parted(take);
          // Saved before it is shown, so that it is still there after a reload.
          await store.saveSteps(take, take.tokens.length - 1, [message.bytes]);
          live.setTake(take);
          if (take.repeats === null) {
            editor.manuscript.grow(take.passage, take.text);
            sentences.push(more);
          }
          work("writing");
        } else if (message.kind === "end") {
          take = { ...take, status: message.status === "failed" ? "failed" : "done", reason: message.reason };
          await this.page.keep(take);
          if (message.status === "failed") throw new ApiError(message.reason ?? "run_failed", "The run failed on the server.");
        }
      }
    } catch (error) {
      if (codeOf(error).startsWith("storage_")) {
        // The token that could not be stored is not shown, and nothing after it.
        take = takeOr(first, takeById(live.now, take.id));
        throw error;
      }
      if (!signal.aborted) {
        if (["connection_lost", "unreachable"].includes(codeOf(error))) live.set({ server: "away" });
        throw error;
      }
    } finally {
      void sampler.forget(take.id);
      if (take.repeats === null) editor.manuscript.commit(take.passage);
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
      if (codeOf(error) !== "unreachable" && this.#signal?.aborted !== true) complain(this.page, error);
    }
    const original = takeById(live.now, take.repeats);
    if (isRun(original)) {
      // Equal to the last token: the result is recorded and the duplicate deleted.
      const proven =
        checked.verdict?.verdict.verdict === "match"
          ? { run: checked.run, verdict: checked.verdict, status: "done" as const, reason: original.reason ?? checked.reason }
          : {};
      await this.#mark(original, { again: { tokens: take.tokens.length, when: Date.now() }, ...proven });
      await store.dropRepeat(take.id);
      live.dropTake(take.id);
      announce(`Regenerated: same text, ${take.tokens.length} of ${plural(original.tokens.length, "token")}.`);
      return;
    }
    const said =
      checked.verdict === null
        ? "not yet verified"
        : checked.verdict.verdict.verdict === "match"
          ? "verified"
          : checked.verdict.verdict.message;
    announce(`Done: ${plural(take.tokens.length, "token")}, ${said}.`);
  }

  /** A regeneration that differs from its take becomes a separate take and is shown. */
  #parted(take: RunTake): RunTake {
    const { live } = this.page;
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
      parted: { at, why, from: original.id },
      number: nextNumber(live.now, take.passage),
      replaces: this.#standing(take.passage),
    };
    live.setTake(parted);
    this.#begin(parted, null);
    return parted;
  }

  #standing(passage: string): { text: string; take: string } | null {
    const range = this.page.editor.range(passage);
    return range === undefined ? null : { text: this.page.editor.textOf(passage), take: range.take };
  }

  /**
   * If the writer has edited the passage, their version becomes a take, before anything else is put in its place. Says what
   * stands there now, if it is that.
   */
  #keepHand(passage: string): { text: string; take: string } | null {
    const { live } = this.page;
    const standing = this.#standing(passage);
    const take = takeById(live.now, standing?.take);
    if (standing === null || take === undefined || standing.text === take.text) return null;
    const hand = this.#handTake(passage, take, standing.text, false);
    return { text: hand.text, take: hand.id };
  }

  /** The rest of a passage that text at `at` splits becomes a take of it. */
  #cutOff(at: number): string | undefined {
    const { editor, live } = this.page;
    const cut = editor.manuscript.cutAt(at);
    const take = takeById(live.now, cut?.passage.take);
    if (cut === null || take === undefined) return undefined;
    const edited = this.#keepHand(cut.passage.id) !== null;
    return this.#handTake(cut.passage.id, take, cut.head, !edited).id;
  }

  #handTake(passage: string, from: Take, text: string, cut: boolean): Take {
    const { live, keep } = this.page;
    const known = takesOf(live.now, passage).find((one) => one.text === text);
    if (known !== undefined) return known;
    const of = isRun(from) ? from.id : from.of;
    const hand: HandTake = {
      kind: "hand",
      id: newId(),
      story: live.now.story,
      passage,
      number: nextNumber(live.now, passage),
      text,
      ...(of === undefined ? {} : { of }),
      ...(cut ? { cut: true } : {}),
    };
    void keep(hand);
    return hand;
  }

  /** Updates a take, which may have grown since. */
  async #mark({ id }: RunTake, marks: Partial<RunTake>): Promise<void> {
    const now = takeById(this.page.live.now, id);
    if (isRun(now)) await this.page.keep({ ...now, ...marks });
  }

  /** One that has not been used for the same. */
  async #freshSeed(used: (seed: string) => boolean): Promise<string> {
    for (;;) {
      const seed = shortSeed(await this.page.sampler.freshSeed());
      if (!used(seed)) return seed;
    }
  }

  async #prompt(text: string): Promise<{ prompt: string; whole: boolean }> {
    const { model, length } = this.page.live.now;
    const count = async (tail: string): Promise<number> => (await api.tokenize(tail, this.#signal)).length;
    const prompt = await promptFor(text, limitsOf(model, length), count);
    this.page.live.set({ reads: prompt.length === text.length ? null : text.length - prompt.length });
    return { prompt, whole: prompt.length === text.length };
  }
}

const takeOr = (other: RunTake, take: Take | undefined): RunTake => (isRun(take) ? take : other);

const usedIn = (takes: readonly Take[], seed: string, settings: Settings, prompt: string): RunTake | undefined =>
  takes
    .filter(isRun)
    .find(
      (take) =>
        take.start.seed === seed &&
        take.prompt === prompt &&
        take.lead === undefined &&
        sameSettings(take.start.settings, settings),
    );

/** How a take that goes on from a chosen word is asked for: by its state, since the word need not be what its text is read as. */
const led = (take: RunTake, start: GeneratorState): Pick<Order, "from"> =>
  take.lead === undefined ? {} : { from: { start, lead: take.lead, branch: take.branch } };

/** Announces sentences, not letters, to screen readers. */
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
