// Stories: opened in one tab at a time, saved automatically, never deleted.
import { ApiError } from "./errors";
import { complain, newId, type StoryPage, tell } from "./page";
import { usual } from "./settings";
import { rangeOf, type Saved, takeById } from "./state";
import { isRun, joinOf, type Take } from "./takes";
import type { Story } from "./store";
import * as wire from "./wire";

export const OPENING = `The letter arrived on a Tuesday, three years after the man who wrote it had died.

Marta turned it over in her hands. The stamp was new, the ink still dark, and when she held it to the window she could see that`;

const TAB = "quillmate-story";

/** After a save that failed, tried again this soon, then less and less often. */
const AGAIN_MS = [1000, 2000, 5000, 10_000];

/** A save that takes longer may be one that never ends. */
const USUAL_MS = 1000;

export class Stories {
  #release: (() => void) | null = null;
  #saving = false;
  #changed = false;
  #opening = false;
  /** Takes that are shown but not yet saved. */
  readonly #takes = new Map<string, Take>();
  #failed = 0;
  /** When what is not saved yet was first changed. */
  #since = 0;
  #again: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly page: StoryPage) {
    addEventListener("pagehide", () => void this.save(true).catch(() => {}));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "hidden") void this.changed();
    });
    // What is not saved would be gone: the browser asks first. A save that has just begun ends without the page.
    addEventListener("beforeunload", (event) => {
      const { saved } = page.live.now;
      if (saved === "failed" || (saved === "saving" && performance.now() - this.#since > USUAL_MS)) event.preventDefault();
    });
  }

  /** This tab's story after a reload; else the one changed last that no other tab has open; else a new one. */
  async start(): Promise<void> {
    const { store } = this.page;
    const mine = sessionStorage.getItem(TAB);
    const known = mine === null ? undefined : await store.story(mine);
    // A reload may start before the old page has released the lock.
    if (known !== undefined && (await this.#lock(known.id, 2000))) return this.#load(known);
    for (const story of await store.stories()) if (await this.#lock(story.id, 0)) return this.#load(story);
    await this.create(OPENING);
  }

  async create(text = ""): Promise<void> {
    const story: Story = {
      id: newId(),
      text,
      passages: [],
      settings: usual.settings,
      length: usual.length,
      seed: null,
      cursor: text.length,
      changed: Date.now(),
    };
    await this.#leave(async () => {
      await this.page.store.saveStory(story);
      await this.#lock(story.id, 0);
      await this.#load(story);
    });
  }

  async open(id: string): Promise<void> {
    const { live, store } = this.page;
    if (id === live.now.story) return;
    await this.#leave(async () => {
      const story = await store.story(id);
      if (story === undefined) return;
      if (!(await this.#lock(id, 0)))
        return tell(this.page, "This story is open in another tab. Go on there, or close that tab first.");
      await this.#load(story);
    });
  }

  /** The open story is saved, and nothing is written into it while another comes. */
  async #leave(then: () => Promise<void>): Promise<void> {
    const { editor } = this.page;
    const first = editor.locked;
    if (!first) {
      editor.lock("Opening a story…");
      clearTimeout(this.#again);
    }
    try {
      await this.save();
      await then();
    } finally {
      if (!first && editor.locked) editor.lock(null);
    }
  }

  async #load(story: Story): Promise<void> {
    const { live, editor, store } = this.page;
    const all = await store.takesOf(story.id);
    this.#opening = true;
    sessionStorage.setItem(TAB, story.id);
    const takes = all.filter(isSound);
    const settings = isRead(() => wire.settings(story.settings)) ? story.settings : usual.settings;
    live.set({
      story: story.id,
      takes,
      settings,
      length: story.length,
      seed: story.seed,
      active: null,
      reads: null,
      refused: new Map(),
      preview: null,
      why: null,
      notice: null,
    });
    editor.open(story.text, story.passages, story.cursor);
    live.set({ ranges: editor.ranges });
    // The text may have been saved a moment before the last tokens were: a take that was being written has them all.
    for (const take of takes) {
      if (!isRun(take) || take.status !== "writing" || rangeOf(live.now, take.passage)?.take !== take.id) continue;
      const { manuscript } = editor;
      if (take.replaces !== null) manuscript.recover(take.passage, take.replaces.take, take.replaces.text);
      manuscript.begin(take.passage, take.id, take.text, null, { join: joinOf(take) ?? "" });
      manuscript.commit(take.passage);
    }
    this.#opening = false;
    this.page.attend(editor.ranges.at(-1)?.id ?? null);
    if (takes.length < all.length || settings !== story.settings) complain(this.page, new ApiError("kept_damaged", ""));
    await this.#list();
  }

  /** Shows a take as it now is, and saves it with the story. */
  async keep(take: Take): Promise<void> {
    this.page.live.setTake(take);
    this.#takes.set(take.id, take);
    await this.changed();
  }

  /** Every change is saved at once; those that come while a save is under way, together after it. */
  async changed(): Promise<void> {
    this.#changed = true;
    if (this.#opening) return;
    this.#say("saving");
    if (this.#saving) return;
    this.#saving = true;
    clearTimeout(this.#again);
    try {
      while (this.#changed) await this.save();
      this.#failed = 0;
      this.#say("saved");
    } catch (error) {
      this.failed(error);
    } finally {
      this.#saving = false;
    }
  }

  /** Saving failed. It is announced once, shown until it succeeds, and retried. */
  failed(error: unknown): void {
    if (this.#failed === 0) complain(this.page, error);
    this.#say("failed");
    clearTimeout(this.#again);
    this.#again = setTimeout(() => void this.changed(), AGAIN_MS[Math.min(this.#failed++, AGAIN_MS.length - 1)]);
  }

  /** While saving fails, another try is no reason to say anything else. */
  #say(saved: Saved): void {
    const { live } = this.page;
    const now = saved === "saving" && this.#failed > 0 ? "failed" : saved;
    if (now === "saving" && live.now.saved === "saved") this.#since = performance.now();
    if (live.now.saved !== now) live.set({ saved: now });
  }

  /** `atOnce` where the page may be gone before the store answers. */
  async save(atOnce = document.visibilityState === "hidden"): Promise<void> {
    const { live, editor, store } = this.page;
    const { story, settings, length, seed, stories } = live.now;
    this.#changed = false;
    if (story === "" || this.#opening) return;
    const { text } = editor;
    const title = titleOf(text);
    if (stories.some((one) => one.id === story && one.title !== title))
      live.set({ stories: stories.map((one) => (one.id === story ? { id: story, title } : one)) });
    const { ranges, cursor } = editor;
    const saved = store.saveStory(
      { id: story, text, passages: [...ranges], settings, length, seed, cursor, changed: Date.now() },
      atOnce,
    );
    // All are begun at once: a page that goes begins nothing more.
    const takes = [...this.#takes].map(async ([id, take]) => {
      // Its newest form: it may have grown since.
      await store.saveTake(takeById(live.now, id) ?? take, atOnce);
      if (this.#takes.get(id) === take) this.#takes.delete(id);
    });
    await Promise.all([saved, ...takes]);
  }

  async #list(): Promise<void> {
    const stories = await this.page.store.stories();
    this.page.live.set({ stories: stories.map(({ id, text }) => ({ id, title: titleOf(text) })) });
  }

  /** One tab per story, so that no tab overwrites what another wrote. Browsers without locks (plain http) go without. */
  async #lock(id: string, wait: number): Promise<boolean> {
    if (!("locks" in navigator)) return true;
    const got = await new Promise<(() => void) | null>((resolve) => {
      const options = wait === 0 ? { ifAvailable: true } : { signal: AbortSignal.timeout(wait) };
      navigator.locks
        .request(`quillmate-story-${id}`, options, (lock) =>
          lock === null ? resolve(null) : new Promise<void>((release) => resolve(release)),
        )
        .catch(() => resolve(null));
    });
    if (got === null) return false;
    this.#release?.();
    this.#release = got;
    return true;
  }
}

/** What this browser keeps may have been changed outside this page, or by a later one. */
function isRead(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}
const isSound = (take: Take): boolean => !isRun(take) || isRead(() => wire.state(take.start));

const titleOf = (text: string): string => {
  const first = text.trim().split("\n", 1)[0] ?? "";
  return first === "" ? "An empty page" : first.length > 60 ? `${first.slice(0, 59)}…` : first;
};
