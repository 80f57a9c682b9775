// Stories: opened in one tab at a time, saved by themselves, never deleted.
import { ApiError } from "./errors";
import { complain, newId, type Page, tell } from "./page";
import { usual } from "./settings";
import { rangeOf } from "./state";
import { isRun, type Take } from "./takes";
import type { Story } from "./store";
import * as wire from "./wire";

export const OPENING = `The letter arrived on a Tuesday, three years after the man who wrote it had died.

Marta turned it over in her hands. The stamp was new, the ink still dark, and when she held it to the window she could see that`;

const TAB = "quillmate-story";

export class Stories {
  #release: (() => void) | null = null;
  #saving = false;
  #changed = false;
  #opening = false;

  constructor(private readonly page: Page) {
    addEventListener("pagehide", () => void this.save());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "hidden") void this.save();
    });
  }

  /** This tab's story after a reload; else the one changed last that no other tab has open; else a new one. */
  async start(): Promise<void> {
    const { store } = this.page;
    const mine = sessionStorage.getItem(TAB);
    const known = mine === null ? undefined : await store.story(mine);
    // A reload may come before the page it replaces has let go.
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
    await this.save();
    await this.#lock(story.id, 0);
    await this.page.store.saveStory(story);
    await this.#load(story);
  }

  async open(id: string): Promise<void> {
    const { live, store } = this.page;
    if (id === live.now.story || live.now.work !== null) return;
    await this.save();
    const story = await store.story(id);
    if (story === undefined) return;
    if (!(await this.#lock(id, 0)))
      return tell(this.page, "This story is open in another tab. Go on there, or close that tab first.");
    await this.#load(story);
  }

  async #load(story: Story): Promise<void> {
    const { live, editor, store } = this.page;
    this.#opening = true;
    sessionStorage.setItem(TAB, story.id);
    const all = await store.takesOf(story.id);
    const takes = all.filter(isSound);
    const settings = isRead(() => wire.settings(story.settings)) ? story.settings : usual.settings;
    live.set({
      story: story.id,
      takes,
      settings,
      length: story.length,
      seed: story.seed,
      active: null,
      preview: null,
      why: null,
      notice: null,
    });
    editor.open(story.text, story.passages, story.cursor);
    live.set({ ranges: editor.ranges });
    // The text may have been saved a moment before the last tokens were: a take that was being written has them all.
    for (const take of takes) {
      if (!isRun(take) || take.status !== "writing" || rangeOf(live.now, take.passage)?.take !== take.id) continue;
      editor.begin(take.passage, take.id, take.text, null, take.replaces);
      editor.commit(take.passage);
    }
    this.#opening = false;
    live.set({ active: editor.ranges.at(-1)?.id ?? null });
    if (takes.length < all.length || settings !== story.settings) complain(this.page, new ApiError("kept_damaged", ""));
    await this.#list();
  }

  /** Every change is saved at once; those that come while a save is under way, together after it. */
  async changed(): Promise<void> {
    this.#changed = true;
    if (this.#saving || this.#opening) return;
    this.#saving = true;
    try {
      while (this.#changed) await this.save();
    } catch (error) {
      complain(this.page, error);
    } finally {
      this.#saving = false;
    }
  }

  async save(): Promise<void> {
    const { live, editor, store } = this.page;
    const { story, settings, length, seed, stories } = live.now;
    this.#changed = false;
    if (story === "" || this.#opening) return;
    const { text } = editor;
    const title = titleOf(text);
    if (stories.some((one) => one.id === story && one.title !== title))
      live.set({ stories: stories.map((one) => (one.id === story ? { id: story, title } : one)) });
    await store.saveStory({
      id: story,
      text,
      passages: [...editor.ranges],
      settings,
      length,
      seed,
      cursor: editor.cursor,
      changed: Date.now(),
    });
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
