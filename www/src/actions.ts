// Implements the actions of verbs.ts.
import { byId } from "./dom";
import { ApiError, codeOf } from "./errors";
import { act, complain, newId, type Page, tell } from "./page";
import type { Previewer } from "./preview";
import { others } from "./processors";
import { fileName, offer, readAny, readRecord, toRecord, toVector } from "./record";
import { type FieldKey, fields, knobs, withProcessors, withValue } from "./settings";
import { activeTake, current, lostPassages, type Refused } from "./state";
import type { Stories } from "./stories";
import { isRun, type RunTake, runTake } from "./takes";
import type {
  NoticeVerbs,
  PassageVerbs,
  PreviewVerbs,
  SettingsVerbs,
  StoryVerbs,
  TakeVerbs,
  Verbs,
  WhyVerbs,
  WritingVerbs,
} from "./verbs";
import type { Asking } from "./why";
import { model as readModel, type Settings } from "./wire";
import type { Writing } from "./writing";

interface Parts {
  page: Page;
  stories: Stories;
  writing: Writing;
  previewer: Previewer;
  asking: Asking;
}

/** Nothing is written with a setting that cannot be taken: the first such is said, and gets the focus. */
function ask(page: Page, work: () => Promise<void>): void {
  const [first] = page.live.now.refused;
  if (first === undefined) return act(page, work());
  const [key, { typed, why }] = first;
  const label = [...fields, ...knobs].find((one) => one.key === key)?.label ?? key;
  complain(page, new ApiError("setting_refused", `${label} cannot be “${typed}”. ${why} Nothing was asked for.`));
  page.point(key);
}

async function copy(page: Page, text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    tell(page, done);
  } catch {
    tell(
      page,
      text === page.editor.text
        ? "The browser does not let the page copy. Select the text, and copy it with the keyboard."
        : text.length < 40
          ? `The browser does not let the page copy. The seed is ${text}.`
          : "The browser does not let the page copy. Save a record instead.",
    );
  }
}

async function saveRecord({ store }: Page, take: RunTake): Promise<void> {
  const frames = await store.frames(take.id);
  offer(fileName(take), JSON.stringify(toRecord(take, frames)));
}

async function copyVector(page: Page, take: RunTake): Promise<void> {
  const frames = await page.store.frames(take.id);
  await copy(page, toVector(take, frames), "The take is copied as a test vector.");
}

async function compareWithFile(writing: Writing, take: RunTake, file: File): Promise<void> {
  await writing.compare(take, file.name, readAny(await file.text()));
}

async function closeMenu({ page, writing }: Parts, then: () => Promise<void>): Promise<void> {
  byId("stories").hidePopover();
  await writing.leave();
  await then();
  page.editor.view.focus();
}

/** A record from a file becomes a story of its own: its prompt, then its take, replayed here before it is shown as good. */
async function openRecord(parts: Parts, file: File): Promise<void> {
  const { page, stories, writing } = parts;
  const { live } = page;
  const { record, frames } = readRecord(await file.text());
  const { table, model } = live.now;
  const of = readModel(record.identity.model);
  if (table === null || model?.tokenizer_sha256 !== of.tokenizer_sha256) {
    return tell(page, `This record was made with ${of.name}. Its text can be shown once a server with that model has been seen.`);
  }
  // A record from which no run could start is refused first.
  await page.sampler.accept(record.start).catch((error: unknown) => {
    throw new ApiError("not_a_record", `${codeOf(error)}: ${String(error)}`);
  });
  const prompt = table.text(record.start.prompt);
  const take = runTake({
    id: newId(),
    story: "",
    passage: newId(),
    number: 1,
    run: null,
    model: of,
    prompt,
    length: record.stop.max_tokens ?? record.tokens.length,
    start: record.start,
    tokens: record.tokens,
    text: table.text(record.tokens),
    checksums: await page.sampler.checksums(frames),
    status: "done",
    reason: record.stop.reason,
    made: record.identity,
    end_tokens: record.stop.end_tokens,
    constraint: record.identity.constraint,
  });
  await closeMenu(parts, () => stories.create(prompt));
  const kept = { ...take, story: live.now.story };
  await page.store.saveSteps(kept, 0, frames);
  live.setTake(kept);
  writing.putBack(kept);
  await writing.replay(kept);
}

const writingActions = ({ page, writing }: Parts): WritingVerbs => ({
  generate: () => ask(page, () => writing.generate()),
  stop: () => act(page, writing.stop()),
  regenerate: () => act(page, writing.regenerate()),
  newTake: () => ask(page, () => writing.newTake()),
});

const passageActions = ({ page: { live }, writing }: Parts): PassageVerbs => ({
  show: (passage, take) => writing.show(passage, take),
  restore(passage) {
    const take = current(live.now, passage);
    if (take !== undefined) writing.show(passage, take.id);
  },
  putBack(passage) {
    const take = lostPassages(live.now).find((one) => one.passage === passage);
    if (take !== undefined) writing.putBack(take);
  },
});

const takeActions = ({ page, stories, writing }: Parts): TakeVerbs => ({
  resume: (take) => act(page, writing.resume(take)),
  verify: (take) => act(page, writing.check(take)),
  replay: (take) => act(page, writing.replay(take)),
  compare: (take, file) => act(page, compareWithFile(writing, take, file)),
  compareWithServer: (take) => act(page, writing.compareWithServer(take)),
  copySeed: (seed) => act(page, copy(page, seed, `Seed ${seed} is copied.`)),
  useSettings(take) {
    page.live.set({
      settings: take.start.settings,
      seed: take.start.seed,
      length: take.length,
      refused: new Map(),
      preview: null,
    });
    void stories.changed();
  },
  saveRecord: (take) => act(page, saveRecord(page, take)),
  copyVector: (take) => act(page, copyVector(page, take)),
});

function whyActions({ page, writing, asking }: Parts): WhyVerbs {
  const closeWhy = (): void => {
    if (byId("why").contains(document.activeElement)) page.editor.view.focus();
    asking.close();
  };
  return {
    why: (passage) => act(page, asking.open(passage)),
    whyStep: (by) => act(page, asking.step(by)),
    takeInstead(take, at, word) {
      closeWhy();
      act(page, writing.takeInstead(take, at, word));
    },
    closeWhy,
  };
}

function settingsActions({ page, stories, previewer, asking }: Parts): SettingsVerbs {
  const { live } = page;

  const without = (key: FieldKey): Refused => {
    const rest = new Map(live.now.refused);
    rest.delete(key);
    return rest;
  };

  /** Saved with the story, and previewed. */
  const setSettings = (settings: Settings): void => {
    live.set({ settings });
    void stories.changed();
    act(page, previewer.update(settings, live.now.seed));
  };

  return {
    set(key, typed) {
      const field = [...fields, ...knobs].find((one) => one.key === key);
      if (field === undefined) return;
      live.set({ lastSet: key });
      // An empty seed means a new one.
      const why = key === "seed" && typed.trim() === "" ? null : field.refuse(typed);
      if (why !== null) {
        live.set({ refused: new Map(live.now.refused).set(key, { typed, why }) });
        return;
      }
      live.set({ refused: without(key) });
      if (key === "seed") live.set({ seed: typed.trim() === "" ? null : typed.trim() });
      else if (key === "length") live.set({ length: Number(typed) });
      else {
        setSettings(withValue(live.now.settings, key, Number(typed)));
        return;
      }
      void stories.changed();
      if (key === "seed") act(page, previewer.update(live.now.settings, live.now.seed));
    },
    freshSeed() {
      const take = activeTake(live.now);
      live.set({ refused: without("seed"), seed: live.now.seed === null ? (isRun(take) ? take.start.seed : "0") : null });
      void stories.changed();
    },
    plainProcessors() {
      const { settings } = live.now;
      const unlisted = others(settings.processors);
      setSettings(
        withProcessors(
          settings,
          settings.processors?.filter((one) => !unlisted.includes(one)),
        ),
      );
    },
    toggleSheet() {
      asking.close();
      live.set({ sheet: !live.now.sheet });
    },
  };
}

const previewActions = ({ page, previewer }: Parts): PreviewVerbs => ({
  goOn: () => ask(page, () => previewer.goOn()),
  closePreview: () => previewer.close(),
});

function storyActions(parts: Parts): StoryVerbs {
  const { page, stories } = parts;
  const leaveFor = (then: () => Promise<void>): void => act(page, closeMenu(parts, then));
  return {
    newStory: () => leaveFor(() => stories.create()),
    openStory: (id) => leaveFor(() => stories.open(id)),
    openRecord: (file) => act(page, openRecord(parts, file)),
    copyText: () => act(page, copy(page, page.editor.text, "Your story is copied.")),
  };
}

const noticeActions = ({ page }: Parts): NoticeVerbs => ({ dismiss: () => page.live.set({ notice: null }) });

export const actions = (parts: Parts): Verbs => ({
  ...writingActions(parts),
  ...passageActions(parts),
  ...takeActions(parts),
  ...whyActions(parts),
  ...settingsActions(parts),
  ...previewActions(parts),
  ...storyActions(parts),
  ...noticeActions(parts),
});
