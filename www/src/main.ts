// The page is put together here: parts made, keys bound, and the state shown whenever it changes.
import { EditorView, keymap } from "@codemirror/view";
import { render } from "lit-html";
import { Editor, type Overlay } from "./editor";
import { ApiError, codeOf } from "./errors";
import { complain, newId, type Page, tell } from "./page";
import { Previewer } from "./preview";
import { answers } from "./prompt";
import { Reading } from "./reading";
import { fileName, offer, readAny, readRecord, toRecord, toVector } from "./record";
import { startSampler } from "./sampler";
import { Server } from "./server";
import { others } from "./processors";
import { type FieldKey, fields, knobs, usual, withProcessors, withValue } from "./settings";
import { activeTake, current, isEdited, Live, rangeOf, type State, takeById, takesOf } from "./state";
import { Store } from "./store";
import { Stories } from "./stories";
import { isRun, runTake } from "./takes";
import * as view from "./view";
import { askedSpan, Asking } from "./why";
import { putBeside, whyPanel } from "./why.panel";
import { model as readModel, type Settings } from "./wire";
import { Writing } from "./writing";

const byId = (id: string): HTMLElement => {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`The page has no #${id}.`);
  return found;
};

const live = new Live({
  saved: "saved",
  server: "unknown",
  loaded: { bytes: 0, of: 0 },
  model: null,
  table: null,
  story: "",
  stories: [],
  takes: [],
  ranges: [],
  active: null,
  standing: "",
  elsewhere: false,
  reads: null,
  settings: usual.settings,
  length: usual.length,
  seed: null,
  refused: new Map(),
  work: null,
  preview: null,
  why: null,
  notice: null,
  sheet: false,
});

const opening = "Opening your story…";
const editor = new Editor(byId("paper"), opening);

const page: Page = {
  live,
  editor,
  store: new Store("quillmate", {
    blocked: () => tell(page, "Another tab has an older version of this page open. Close that tab, and your stories open here."),
    superseded: () => complain(page, new ApiError("storage_newer", "A newer page has this database open.")),
  }),
  sampler: startSampler(),
  announce(text) {
    const say = byId("say");
    const one = document.createElement("p");
    one.textContent = text;
    say.append(one);
    while (say.childElementCount > 8) say.firstElementChild?.remove();
  },
  attend(passage) {
    const active = editor.range(passage) === undefined ? null : passage;
    live.set({ ranges: editor.ranges, active });
    live.set(beside());
  },
  keep: (take) => stories.keep(take),
  point(field) {
    const input = byId(`set-${field}`) as HTMLInputElement;
    if (getComputedStyle(byId("settings")).display === "none") live.set({ sheet: true });
    input.closest("details")?.setAttribute("open", "");
    // Once the sheet is there, and whatever had the focus has been drawn anew.
    setTimeout(() => (input.focus(), input.select()));
  },
};
const writing = new Writing(page);
const previewer = new Previewer(page, writing);
const asking = new Asking(page);
const stories = new Stories(page);
const reading = new Reading(page);
const server = new Server(page, () => writing.catchUp());

const act = (work: Promise<unknown>): void => void work.catch((error: unknown) => complain(page, error));

/** How the active passage stands to its take. */
function beside(): Pick<State, "standing" | "elsewhere"> {
  const { active } = live.now;
  const take = activeTake(live.now);
  const range = editor.range(active);
  if (active === null || range === undefined) return { standing: "", elsewhere: false };
  const elsewhere = isRun(take) && !answers(take.prompt, take.whole, editor.before(range.from));
  return { standing: editor.textOf(active), elsewhere };
}

/** Nothing is written with a setting that cannot be taken: the first such is said, and gets the focus. */
function ask(work: () => Promise<void>): void {
  const [first] = live.now.refused;
  if (first === undefined) return act(work());
  const [key, { typed, why }] = first;
  const label = [...fields, ...knobs].find((one) => one.key === key)?.label ?? key;
  complain(page, new ApiError("setting_refused", `${label} cannot be “${typed}”. ${why} Nothing was asked for.`));
  page.point(key);
}

const verbs: view.Verbs = {
  generate: () => ask(() => writing.generate()),
  stop: () => act(writing.stop()),
  regenerate: () => act(writing.regenerate()),
  newTake: () => ask(() => writing.newTake()),
  resume: (take) => act(writing.resume(take)),
  verify: (take) => act(writing.check(take)),
  replay: (take) => act(writing.replay(take)),
  show: (passage, take) => writing.show(passage, take),
  restore(passage) {
    const take = current(live.now, passage);
    if (take !== undefined) writing.show(passage, take.id);
  },
  copySeed: (seed) => act(copy(seed, `Seed ${seed} is copied.`)),
  useSettings(take) {
    live.set({
      settings: take.start.settings,
      seed: take.start.seed,
      length: take.length,
      refused: new Map(),
      preview: null,
    });
    void stories.changed();
  },
  saveRecord: (take) =>
    act(page.store.frames(take.id).then((frames) => offer(fileName(take), JSON.stringify(toRecord(take, frames))))),
  copyVector: (take) =>
    act(page.store.frames(take.id).then((frames) => copy(toVector(take, frames), "The take is copied as a test vector."))),
  openRecord: (file) => act(openRecord(file)),
  compare: (take, file) => act(file.text().then((text) => writing.compare(take, file.name, readAny(text)))),
  compareWithServer: (take) => act(writing.compareWithServer(take)),
  set: setSetting,
  freshSeed() {
    const take = activeTake(live.now);
    live.set({ refused: without("seed"), seed: live.now.seed === null ? (isRun(take) ? take.start.seed : "0") : null });
    void stories.changed();
  },
  why: (passage) => act(asking.open(passage)),
  whyStep: (by) => act(asking.step(by)),
  takeInstead(take, at, word) {
    verbs.closeWhy();
    act(writing.takeInstead(take, at, word));
  },
  closeWhy() {
    if (byId("why").contains(document.activeElement)) editor.view.focus();
    asking.close();
  },
  plainProcessors() {
    const { settings } = live.now;
    const foreign = others(settings.processors);
    setSettings(
      withProcessors(
        settings,
        settings.processors?.filter((one) => !foreign.includes(one)),
      ),
    );
  },
  goOn: () => ask(() => previewer.goOn()),
  closePreview: () => previewer.close(),
  toggleSheet() {
    asking.close();
    live.set({ sheet: !live.now.sheet });
  },
  dismiss: () => live.set({ notice: null }),
  copyText: () => act(copy(editor.text, "Your story is copied.")),
  newStory: () => act(closeMenu(() => stories.create())),
  openStory: (id) => act(closeMenu(() => stories.open(id))),
  putBack(passage) {
    const take = view.lostPassages(live.now).find((one) => one.passage === passage);
    if (take !== undefined) writing.putBack(take);
  },
};

let lastSet = "temperature";

function without(key: FieldKey): State["refused"] {
  const rest = new Map(live.now.refused);
  rest.delete(key);
  return rest;
}

/** Kept with the story, and previewed. */
function setSettings(settings: Settings): void {
  live.set({ settings });
  void stories.changed();
  act(previewer.update(settings, live.now.seed));
}

function setSetting(key: FieldKey, typed: string): void {
  const field = [...fields, ...knobs].find((one) => one.key === key);
  if (field === undefined) return;
  lastSet = key;
  // An emptied seed is a fresh one.
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
  if (key === "seed") act(previewer.update(live.now.settings, live.now.seed));
}

async function copy(text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    tell(page, done);
  } catch {
    tell(
      page,
      text === editor.text
        ? "The browser does not let the page copy. Select the text, and copy it with the keyboard."
        : text.length < 40
          ? `The browser does not let the page copy. The seed is ${text}.`
          : "The browser does not let the page copy. Save a record instead.",
    );
  }
}

async function closeMenu(then: () => Promise<void>): Promise<void> {
  byId("stories").hidePopover();
  await writing.leave();
  await then();
  editor.view.focus();
}

/** A record from a file becomes a story of its own: its prompt, then its take, replayed here before it is shown as good. */
async function openRecord(file: File): Promise<void> {
  const { record, frames } = readRecord(await file.text());
  const { table, model } = live.now;
  const of = readModel(record.identity.model);
  if (table === null || model?.tokenizer_sha256 !== of.tokenizer_sha256) {
    return tell(page, `This record was made with ${of.name}. Its text can be shown once a server with that model has been seen.`);
  }
  // What no run could start from is refused before anything is made of it.
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
  await closeMenu(() => stories.create(prompt));
  const kept = { ...take, story: live.now.story };
  await page.store.saveSteps(kept, 0, frames);
  live.setTake(kept);
  writing.putBack(kept);
  await writing.replay(kept);
}

function escape(): boolean {
  const { work, preview, why, sheet } = live.now;
  if (why !== null) verbs.closeWhy();
  else if (preview !== null) previewer.close();
  else if (sheet) verbs.toggleSheet();
  else if (work !== null) verbs.stop();
  else return false;
  return true;
}

function stepTake(by: number): void {
  const { active } = live.now;
  if (active === null) return;
  const takes = takesOf(live.now, active);
  const at = takes.findIndex(({ id }) => id === rangeOf(live.now, active)?.take);
  const next = takes[(at + by + takes.length) % takes.length];
  if (next !== undefined && takes.length > 1) verbs.show(active, next.id);
}

// Letters with Alt give other characters on some keyboards, so the key's place counts, not its character.
const altKeys: Record<string, () => void> = {
  KeyR: verbs.regenerate,
  KeyN: verbs.newTake,
  Comma: () => stepTake(-1),
  Period: () => stepTake(1),
  KeyP() {
    const take = activeTake(live.now);
    if (isRun(take)) verbs.replay(take);
  },
  KeyW() {
    if (live.now.why === null) verbs.why(null);
    else if (byId("why").contains(document.activeElement)) verbs.closeWhy();
    else byId("why").querySelector("button")?.focus();
  },
  KeyS() {
    if (getComputedStyle(byId("settings")).display === "none") verbs.toggleSheet();
    setTimeout(() => byId("set-temperature").focus());
  },
};

addEventListener(
  "keydown",
  (event) => {
    if (event.isComposing) return;
    const inText = editor.view.hasFocus;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.code === "KeyF") {
      // The browser's own search sees only what is drawn.
      event.preventDefault();
      editor.search();
    } else if (event.altKey && !event.ctrlKey && !event.metaKey && altKeys[event.code] !== undefined) {
      event.preventDefault();
      altKeys[event.code]?.();
    } else if (!inText && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      verbs.generate();
    } else if (!inText && event.key === "Escape" && document.querySelector(":popover-open") === null && escape()) {
      event.preventDefault();
    }
  },
  { capture: true },
);

function overlay(): Overlay {
  const state = live.now;
  const { work } = state;
  const repeat = work?.repeating === true ? takeById(state, work.take) : undefined;
  const asked = askedSpan(state, editor.textOf(state.why?.passage ?? ""));
  return {
    active: state.active,
    several: state.ranges.filter(({ id }) => takesOf(state, id).length > 1).map(({ id }) => id),
    preview: previewer.marks(),
    again: isRun(repeat) && !isEdited(state) ? { passage: repeat.passage, upTo: repeat.text.length } : null,
    reads: state.reads,
    asked: asked === null || state.why === null ? null : { passage: state.why.passage, ...asked },
  };
}

function show(): void {
  const state = live.now;
  const held = document.activeElement;
  render(view.header(state, verbs), byId("head"));
  render(view.settingsPanel(state, verbs), byId("settings"));
  render(view.passage(state, verbs), byId("passage"));
  render(view.bar(state, verbs), byId("bar"));
  byId("settings").classList.toggle("open", state.sheet);
  byId("why").hidden = state.why === null;
  render(whyPanel(state, verbs), byId("why"));
  const over = overlay();
  editor.show(over);
  if (state.why !== null) putBeside(byId("why"), byId("paper"), editor.rectOf(over.asked));
  editor.view.requestMeasure();
  keepFocus(held);
}

const nameOf = (one: Element): string | null => one.getAttribute("aria-label") ?? one.textContent;
const gone = (one: Element | null): one is Element =>
  one !== null && one !== document.body && !(one.isConnected && one.checkVisibility());

/** What had the focus and is gone, or was made anew, hands it on to the nearest thing that is there. */
function keepFocus(held: Element | null): void {
  if (!gone(held)) return;
  const buttons = [...byId("passage").querySelectorAll<HTMLElement>("button, summary")];
  const setting = byId(`set-${lastSet}`);
  const next =
    buttons.find((one) => nameOf(one) === nameOf(held)) ?? (setting.checkVisibility() ? setting : editor.view.contentDOM);
  next.focus({ preventScroll: true });
}

editor.start(
  {
    changed({ doc, moved, typed, passage }) {
      const state = live.now;
      // Writing on closes a preview; what it marked may have moved.
      live.set({
        ranges: editor.ranges,
        ...(passage === null ? {} : { active: passage }),
        ...(typed || (passage !== null && passage !== state.active) ? { preview: null } : {}),
      });
      if (rangeOf(live.now, live.now.active) === undefined) live.set({ active: null });
      if (typed) asking.close();
      else if (doc || moved) act(asking.follow());
      live.set(beside());
      reading.changed();
      if (doc || passage !== null) void stories.changed();
    },
    stop: () => act(writing.stop()),
  },
  keymap.of([
    { key: "Mod-Enter", run: () => (verbs.generate(), true) },
    { key: "Escape", run: () => escape() },
  ]),
);

live.listen(show);
editor.view.scrollDOM.addEventListener("scroll", () => live.now.why !== null && show());
addEventListener("resize", () => live.now.why !== null && show());

// On paper there is no scrolling, and the editor holds only what is in sight: the whole story is set for it.
addEventListener("beforeprint", () => {
  byId("print").replaceChildren(
    ...editor.text.split("\n").map((line) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = line;
      return paragraph;
    }),
  );
});
addEventListener("afterprint", () => byId("print").replaceChildren());

live.set({});
try {
  await stories.start();
  editor.view.dispatch({ effects: EditorView.scrollIntoView(editor.cursor, { y: "nearest" }) });
  editor.view.focus();
  await server.look();
} catch (error) {
  editor.lock("Your stories cannot be opened, and nothing can be written here. Reload the page to try again.");
  complain(page, error);
}
