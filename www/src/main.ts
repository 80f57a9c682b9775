// The page is put together here: parts made, keys bound, and the state shown whenever it changes.
import { EditorView, keymap } from "@codemirror/view";
import { render } from "lit-html";
import { Editor, type Overlay } from "./editor";
import { ApiError, codeOf } from "./errors";
import { complain, newId, type Page, tell } from "./page";
import { Previewer } from "./preview";
import { fileName, offer, readAny, readRecord, toRecord, toVector } from "./record";
import { startSampler } from "./sampler";
import { Server } from "./server";
import { others } from "./processors";
import { fields, knobs, usual, withProcessors, withValue } from "./settings";
import { activeTake, current, isEdited, Live, rangeOf, takeById, takesOf } from "./state";
import { Store } from "./store";
import { Stories } from "./stories";
import { isRun, type RunTake } from "./takes";
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
  settings: usual.settings,
  length: usual.length,
  seed: null,
  work: null,
  preview: null,
  why: null,
  notice: null,
  sheet: false,
});

/** Places in the text that show something about a passage. */
const hosts = new Map<HTMLElement, { passage: string; kind: "line" | "switch" }>();
/** Typed values that cannot be taken, until they are mended. */
const refused = new Map<string, { typed: string; why: string }>();

const act = (work: Promise<unknown>): void => void work.catch((error: unknown) => complain(page, error));

const editor = new Editor(
  byId("paper"),
  {
    mount(host, passage, kind) {
      hosts.set(host, { passage, kind });
      showHost(host);
    },
    unmount: (host) => void hosts.delete(host),
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
      live.set({ standing: live.now.active === null ? "" : editor.textOf(live.now.active) });
      if (doc || passage !== null) void stories.changed();
    },
    stop: () => act(writing.stop()),
  },
  keymap.of([
    { key: "Mod-Enter", run: () => (act(writing.generate()), true) },
    { key: "Escape", run: () => escape() },
  ]),
);

const store = await Store.open().catch((error: unknown) => {
  byId("bar").textContent =
    "This browser does not let the page keep anything, and Quillmate writes nothing it cannot keep. Allow storage for this page, or leave private browsing, and reload.";
  throw error;
});

const page: Page = {
  live,
  editor,
  store,
  sampler: startSampler(),
  announce(text) {
    const say = byId("say");
    const one = document.createElement("p");
    one.textContent = text;
    say.append(one);
    while (say.childElementCount > 8) say.firstElementChild?.remove();
  },
};
const writing = new Writing(page);
const previewer = new Previewer(page, writing);
const asking = new Asking(page);
const stories = new Stories(page);
const server = new Server(page, () => writing.catchUp());

const verbs: view.Verbs = {
  generate: () => act(writing.generate()),
  stop: () => act(writing.stop()),
  regenerate: () => act(writing.regenerate()),
  newTake: () => act(writing.newTake()),
  resume: (take) => act(writing.resume(take)),
  verify: (take) => act(writing.check(take)),
  replay: (take) => act(writing.replay(take)),
  show: (passage, take) => act(writing.show(passage, take)),
  restore(passage) {
    const take = current(live.now, passage);
    if (take !== undefined) act(writing.show(passage, take.id));
  },
  activate: (passage) => live.set({ active: passage, standing: editor.textOf(passage), preview: null }),
  copySeed: (seed) => act(copy(seed, `Seed ${seed} is copied.`)),
  useSettings(take) {
    refused.clear();
    live.set({ settings: take.start.settings, seed: take.start.seed, length: take.length, preview: null });
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
    refused.delete("seed");
    live.set({ seed: live.now.seed === null ? (isRun(take) ? take.start.seed : "0") : null });
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
  goOn: () => act(previewer.goOn()),
  closePreview: () => previewer.close(),
  toggleSheet() {
    asking.close();
    live.set({ sheet: !live.now.sheet });
  },
  dismiss: () => live.set({ notice: null }),
  newStory: () => act(closeMenu(() => stories.create())),
  openStory: (id) => act(closeMenu(() => stories.open(id))),
  putBack(passage) {
    const take = view.lostPassages(live.now).find((one) => one.passage === passage);
    if (take !== undefined) editor.insert(passage, take.id, take.text);
  },
};

let lastSet = "temperature";

/** Kept with the story, and previewed. */
function setSettings(settings: Settings): void {
  live.set({ settings });
  void stories.changed();
  act(previewer.update(settings, live.now.seed));
}

function setSetting(key: view.FieldKey, typed: string): void {
  const field = [...fields, ...knobs].find((one) => one.key === key);
  if (field === undefined) return;
  lastSet = key;
  // An emptied seed is a fresh one.
  const why = key === "seed" && typed.trim() === "" ? null : field.refuse(typed);
  if (why !== null) {
    refused.set(key, { typed, why });
    live.set({});
    return;
  }
  refused.delete(key);
  if (key === "seed") live.set({ seed: typed.trim() === "" ? null : typed.trim() });
  else if (key === "length") live.set({ length: Number(typed) });
  else return setSettings(withValue(live.now.settings, key, Number(typed)));
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
      text.length < 40
        ? `The browser does not let the page copy. The seed is ${text}.`
        : "The browser does not let the page copy. Save a record instead.",
    );
  }
}

async function closeMenu(then: () => Promise<void>): Promise<void> {
  byId("stories").hidePopover();
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
  const take: RunTake = {
    kind: "run",
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
    verdict: null,
    replay: null,
    again: null,
    repeats: null,
    parted: null,
    replaces: null,
  };
  await closeMenu(() => stories.create(prompt));
  const kept = { ...take, story: live.now.story };
  await page.store.saveSteps(kept, 0, frames);
  live.setTake(kept);
  editor.insert(kept.passage, kept.id, kept.text);
  await writing.replay(kept);
  await stories.save();
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
    if (event.altKey && !event.ctrlKey && !event.metaKey && altKeys[event.code] !== undefined) {
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

function showHost(host: HTMLElement): void {
  const what = hosts.get(host);
  if (what !== undefined)
    render(what.kind === "line" ? view.line(live.now, what.passage, verbs) : view.switcher(live.now, what.passage, verbs), host);
}

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
    asked: asked === null || state.why === null ? null : { passage: state.why.passage, ...asked },
  };
}

function show(): void {
  const state = live.now;
  const held = document.activeElement;
  const heldInText = editor.focusedIn;
  render(view.header(state, verbs), byId("head"));
  render(view.settingsPanel(state, verbs, refused), byId("settings"));
  render(view.bar(state, verbs), byId("bar"));
  byId("settings").classList.toggle("open", state.sheet);
  byId("why").hidden = state.why === null;
  render(whyPanel(state, verbs), byId("why"));
  const over = overlay();
  editor.show(over);
  if (state.why !== null) putBeside(byId("why"), byId("paper"), editor.rectOf(over.asked));
  for (const host of hosts.keys()) showHost(host);
  editor.view.requestMeasure();
  keepFocus(held, heldInText);
}

const nameOf = (one: Element): string | null => one.getAttribute("aria-label") ?? one.textContent;
const gone = (one: Element | null): one is Element =>
  one !== null && one !== document.body && !(one.isConnected && one.checkVisibility());

/** What had the focus and is gone, or was made anew, hands it on to the nearest thing that is there. */
function keepFocus(held: Element | null, heldInText: Element | null): void {
  if (gone(heldInText)) {
    const buttons = [...hosts.keys()].flatMap((host) => [...host.querySelectorAll<HTMLElement>("button, summary")]);
    (buttons.find((one) => nameOf(one) === nameOf(heldInText)) ?? editor.view.contentDOM).focus({ preventScroll: true });
  } else if (gone(held)) {
    const setting = byId(`set-${lastSet}`);
    (setting.checkVisibility() ? setting : editor.view.contentDOM).focus({ preventScroll: true });
  }
}

live.listen(show);
editor.view.scrollDOM.addEventListener("scroll", () => live.now.why !== null && show());
addEventListener("resize", () => live.now.why !== null && show());
await stories.start();
editor.view.dispatch({ effects: EditorView.scrollIntoView(editor.cursor, { y: "nearest" }) });
editor.view.focus();
await server.look();
