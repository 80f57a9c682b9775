// The paper: CodeMirror in a shadow root, so that its styles are adopted sheets and the page needs no inline style.
import { defaultKeymap, history, historyField, historyKeymap, isolateHistory, redo, undo } from "@codemirror/commands";
import {
  ChangeSet,
  Compartment,
  EditorState,
  type Extension,
  Prec,
  type Range,
  StateEffect,
  StateField,
  Transaction,
} from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, placeholder, WidgetType } from "@codemirror/view";
import sheetText from "./editor.css?inline";
import { lift, passageAt, passageById, type PassageRange, passages, place, write, writing } from "./passages";

/** What lies over the text without being part of it. */
export interface Overlay {
  active: string | null;
  /** Passages with more than one take: they carry a small switch even when they are not the active one. */
  several: readonly string[];
  /** A preview: so many characters of the passage stay; then comes another token. */
  preview: { passage: string; stays: number; instead: string } | null;
  /** A regeneration: so many characters have come out the same again. */
  again: { passage: string; upTo: number } | null;
  /** The word asked about, in characters of the passage. */
  asked: { passage: string; from: number; to: number } | null;
}

export interface EditorEvents {
  /** A place in the text where the page shows something about a passage. */
  mount: (host: HTMLElement, passage: string, kind: "line" | "switch") => void;
  unmount: (host: HTMLElement) => void;
  /** The text, the passages or the cursor changed (`moved`). `typed` when the writer did it. */
  changed: (what: { doc: boolean; moved: boolean; typed: boolean; passage: string | null }) => void;
  /** Undo while a passage is written stops the writing, and no more. */
  stop: () => void;
}

const setOverlay = StateEffect.define<Overlay>();
const nothing: Overlay = { active: null, several: [], preview: null, again: null, asked: null };
const overlay = StateField.define<Overlay>({
  create: () => nothing,
  update: (now, tr) => tr.effects.reduce((last, effect) => (effect.is(setOverlay) ? effect.value : last), now),
});

class Host extends WidgetType {
  constructor(
    readonly passage: string,
    readonly kind: "line" | "switch",
    readonly events: EditorEvents,
  ) {
    super();
  }
  override eq(other: Host): boolean {
    return other.passage === this.passage && other.kind === this.kind;
  }
  override toDOM(): HTMLElement {
    const host = document.createElement(this.kind === "line" ? "div" : "span");
    host.className = `qm-${this.kind}`;
    this.events.mount(host, this.passage, this.kind);
    return host;
  }
  override destroy(host: HTMLElement): void {
    this.events.unmount(host);
  }
  override ignoreEvent = (): boolean => true;
}

class Instead extends WidgetType {
  constructor(readonly text: string) {
    super();
  }
  override eq = (other: Instead): boolean => other.text === this.text;
  override toDOM(): HTMLElement {
    const mark = document.createElement("ins");
    mark.className = "qm-instead";
    mark.textContent = this.text;
    return mark;
  }
}

function decorate(state: EditorState, events: EditorEvents): DecorationSet {
  const { active, several, preview, again, asked } = state.field(overlay);
  const open = state.field(writing);
  const marks: Range<Decoration>[] = [];
  for (const { id, from, to } of state.field(passages)) {
    const isActive = id === active;
    if (from < to)
      marks.push(
        Decoration.mark({ class: `qm-passage${isActive ? " qm-active" : ""}${id === open ? " qm-writing" : ""}` }).range(
          from,
          to,
        ),
      );
    if (isActive) {
      const text = state.sliceDoc(from, to);
      const line = state.doc.lineAt(from + text.trimEnd().length);
      marks.push(Decoration.widget({ widget: new Host(id, "line", events), block: true, side: 1 }).range(line.to));
    } else if (several.includes(id)) {
      marks.push(Decoration.widget({ widget: new Host(id, "switch", events), side: -1 }).range(to));
    }
    if (preview?.passage === id && from + preview.stays <= to) {
      const at = from + preview.stays;
      if (at < to) marks.push(Decoration.mark({ class: "qm-leaves" }).range(at, to));
      marks.push(Decoration.widget({ widget: new Instead(preview.instead), side: 1 }).range(at));
    }
    if (again?.passage === id && again.upTo > 0)
      marks.push(Decoration.mark({ class: "qm-again" }).range(from, Math.min(to, from + again.upTo)));
    if (asked?.passage === id && asked.from < asked.to && from + asked.to <= to)
      marks.push(Decoration.mark({ class: "qm-asked" }).range(from + asked.from, from + asked.to));
  }
  return Decoration.set(marks, true);
}

const quiet = Transaction.addToHistory.of(false);

export class Editor {
  readonly view: EditorView;
  readonly #root: ShadowRoot;
  readonly #history = new Compartment();
  /** While a passage is written: the text as it is without what is being written, with its history. */
  #behind: { state: EditorState; text: string; take: string | null } | null = null;
  #hushed = false;

  constructor(
    host: HTMLElement,
    private readonly events: EditorEvents,
    private readonly keys: Extension,
  ) {
    this.#root = host.attachShadow({ mode: "open", delegatesFocus: true });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(sheetText);
    this.#root.adoptedStyleSheets = [sheet];
    this.view = new EditorView({ root: this.#root, parent: this.#root, state: this.#fresh("", [], 0) });
    // CodeMirror adopts its own sheets in front; ours come last and win.
    this.#root.adoptedStyleSheets = [...this.#root.adoptedStyleSheets.filter((one) => one !== sheet), sheet];
  }

  #fresh(doc: string, ranges: readonly PassageRange[], cursor: number): EditorState {
    const sane = ranges.filter(({ from, to }) => from >= 0 && from <= to && to <= doc.length);
    const state = EditorState.create({
      doc,
      selection: { anchor: Math.min(Math.max(cursor, 0), doc.length) },
      extensions: [
        // "\n" alone ends a line, so that the document is the text to the character; pasted text is brought to that form.
        EditorState.lineSeparator.of("\n"),
        EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, "\n")),
        writing,
        passages,
        overlay,
        this.#history.of(history()),
        this.keys,
        Prec.high(
          keymap.of([
            { key: "Mod-z", run: (view) => this.#stopped(view) || undo(view) },
            { key: "Mod-y", mac: "Mod-Shift-z", run: (view) => this.#stopped(view) || redo(view) },
          ]),
        ),
        keymap.of([...historyKeymap, ...defaultKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({
          "aria-label": "Your story",
          spellcheck: "true",
          autocapitalize: "sentences",
          autocorrect: "on",
        }),
        placeholder("Write the beginning of a story, or paste one."),
        EditorView.decorations.compute([passages, overlay, writing, "doc"], (now) => decorate(now, this.events)),
        // While a passage is being written, the writer's edits stay out of it.
        EditorState.changeFilter.of((tr) => {
          const open = passageById(tr.startState, tr.startState.field(writing));
          return open === undefined || tr.annotation(Transaction.addToHistory) === false || open.from === open.to
            ? true
            : [open.from, open.to];
        }),
        EditorView.updateListener.of((update) => {
          for (const tr of update.transactions) this.#follow(tr);
          if (this.#hushed) return;
          if (!update.docChanged && !update.selectionSet && update.startState.field(passages) === update.state.field(passages))
            return;
          const typed = update.transactions.some(
            (tr) => tr.isUserEvent("input") || tr.isUserEvent("delete") || tr.isUserEvent("undo") || tr.isUserEvent("redo"),
          );
          const touched = update.selectionSet || typed ? passageAt(update.state, update.state.selection.main.head) : undefined;
          this.events.changed({ doc: update.docChanged, moved: update.selectionSet, typed, passage: touched?.id ?? null });
        }),
      ],
    });
    return sane.length === 0 ? state : state.update({ effects: sane.map((range) => place.of(range)), annotations: quiet }).state;
  }

  #stopped(view: EditorView): boolean {
    if (view.state.field(writing) === null) return false;
    this.events.stop();
    return true;
  }

  /** Another text, with a history of its own. */
  open(doc: string, ranges: readonly PassageRange[], cursor: number): void {
    this.view.setState(this.#fresh(doc, ranges, cursor));
  }

  get text(): string {
    return this.view.state.doc.toString();
  }
  get cursor(): number {
    return this.view.state.selection.main.to;
  }
  /** Where the caret is, or the end of what is selected. */
  get head(): number {
    return this.view.state.selection.main.head;
  }
  get ranges(): readonly PassageRange[] {
    return this.view.state.field(passages);
  }
  get focusedIn(): Element | null {
    return this.#root.activeElement;
  }
  range(passage: string | null): PassageRange | undefined {
    return passageById(this.view.state, passage);
  }
  textOf(passage: string): string {
    const range = this.range(passage);
    return range === undefined ? "" : this.view.state.sliceDoc(range.from, range.to);
  }

  /** Where the word asked about is on the screen, or else the caret; null where that is out of sight. */
  rectOf(asked: Overlay["asked"]): DOMRect | null {
    const start = this.range(asked?.passage ?? null)?.from ?? 0;
    const [from, to] = asked === null ? [this.head, this.head] : [start + asked.from, start + asked.to];
    // A space in front may stand at the end of the line before.
    const spaces = /^\s*(?=\S)/.exec(this.view.state.sliceDoc(from, to))?.[0].length ?? 0;
    const first = this.view.coordsAtPos(from + spaces, 1);
    const last = this.view.coordsAtPos(to, -1) ?? first;
    if (first === null || last === null) return null;
    return new DOMRect(first.left, first.top, Math.max(0, last.right - first.left), last.bottom - first.top);
  }

  show(over: Overlay): void {
    const now = this.view.state.field(overlay);
    if (JSON.stringify(now) === JSON.stringify(over)) return;
    // Where a preview parts from the take is brought into sight.
    const from = this.range(over.preview?.passage ?? null)?.from;
    const reveal =
      over.preview === null || from === undefined
        ? []
        : [EditorView.scrollIntoView(from + over.preview.stays, { y: "nearest", yMargin: 60 })];
    const asked = this.range(over.asked?.passage ?? null)?.from;
    const word =
      over.asked === null || asked === undefined
        ? []
        : [EditorView.scrollIntoView(asked + over.asked.from, { y: "nearest", yMargin: 60 })];
    this.view.dispatch({ effects: [setOverlay.of(over), ...reveal, ...word] });
  }

  /**
   * Opens a passage for writing with the text it has so far: a new one at `at`, or the one that is there. What is
   * written stays outside the history until `commit` puts it in as one step; `before` is what one undo then gives back
   * (by default what stands there now).
   */
  begin(id: string, take: string, text: string, at: number | null, before: { text: string; take: string } | null = null): void {
    if (this.range(id) === undefined && at === null) return;
    if (before !== null) this.#set(id, before.take, before.text);
    const { state } = this.view;
    const there = this.range(id);
    const from = there?.from ?? Math.min(at ?? 0, state.doc.length);
    const to = there?.to ?? from;
    // Generating inside a passage cuts it there: what follows becomes the writer's own text.
    const cut =
      there === undefined ? state.field(passages).find((passage) => passage.from < from && from < passage.to) : undefined;
    if (cut !== undefined) this.view.dispatch({ effects: place.of({ ...cut, to: from }), annotations: quiet });
    const { main } = state.selection;
    const along = main.empty && main.head >= from && main.head <= to;
    this.#behind = { state: this.view.state, text: state.sliceDoc(from, to), take: there?.take ?? null };
    this.view.dispatch({
      changes: { from, to, insert: text },
      effects: [write.of(id), place.of({ id, take, from, to: from + text.length })],
      annotations: quiet,
      ...(along ? { selection: { anchor: from + text.length } } : {}),
    });
  }

  #set(id: string, take: string, text: string): void {
    const range = this.range(id);
    if (range === undefined) return;
    const { from, to } = range;
    this.view.dispatch({
      changes: { from, to, insert: text },
      effects: place.of({ id, take, from, to: from + text.length }),
      annotations: quiet,
    });
  }

  /** What the writer does elsewhere while a passage is written is done to the text behind it too, and enters its history. */
  #follow(tr: Transaction): void {
    const open = passageById(tr.startState, tr.startState.field(writing));
    if (this.#behind === null || open === undefined || tr.annotation(Transaction.addToHistory) === false) return;
    if (!tr.docChanged && tr.effects.length === 0) return;
    const back = ChangeSet.of({ from: open.from, to: open.to, insert: this.#behind.text }, tr.startState.doc.length);
    const userEvent = tr.annotation(Transaction.userEvent);
    this.#behind.state = this.#behind.state.update({
      changes: tr.changes.map(back),
      effects: StateEffect.mapEffects(tr.effects, back.mapDesc(tr.changes)),
      annotations: userEvent === undefined ? [] : Transaction.userEvent.of(userEvent),
      filter: false,
    }).state;
  }

  /** Makes the open passage's text `text`, which only ever grows; the cursor goes along if it stood at the end. */
  grow(id: string, text: string): void {
    const range = this.range(id);
    if (range === undefined) return;
    const has = this.view.state.sliceDoc(range.from, range.to);
    if (has === text) return;
    const keep = text.startsWith(has) ? has.length : 0;
    const from = range.from + keep;
    const insert = text.slice(keep);
    const { main } = this.view.state.selection;
    const along = main.empty && main.head === range.to;
    this.view.dispatch({
      changes: { from, to: range.to, insert },
      effects: place.of({ ...range, to: from + insert.length }),
      annotations: quiet,
      ...(along ? { selection: { anchor: from + insert.length }, scrollIntoView: true } : {}),
    });
  }

  /**
   * Closes the passage and writes it into the history as one step. A history cannot take in afterwards what it was not
   * told, so the text from before and its history are brought back, unseen, and the passage set in at once.
   */
  commit(id: string): void {
    const range = this.range(id);
    const behind = this.#behind;
    this.#behind = null;
    if (range === undefined || behind === null || this.view.state.field(writing) !== id) {
      this.view.dispatch({ effects: write.of(null), annotations: quiet });
      return;
    }
    this.#hushed = true;
    this.#enter(range, behind);
    this.#hushed = false;
    this.events.changed({ doc: true, moved: false, typed: false, passage: null });
  }

  #enter({ id, from, to, take }: PassageRange, behind: { state: EditorState; text: string; take: string | null }): void {
    const { selection } = this.view.state;
    const text = this.view.state.sliceDoc(from, to);
    const end = from + behind.text.length;
    this.view.dispatch({
      changes: { from, to, insert: behind.text },
      effects: [
        write.of(null),
        behind.take === null ? lift.of(id) : place.of({ id, take: behind.take, from, to: end }),
        this.#history.reconfigure([]),
      ],
      annotations: quiet,
    });
    const kept = this.view.state.doc.eq(behind.state.doc) ? historyField.init(() => behind.state.field(historyField)) : [];
    this.view.dispatch({ effects: this.#history.reconfigure([history(), kept]), annotations: quiet });
    if (text === "" && behind.take === null) return;
    this.view.dispatch({
      changes: { from, to: end, insert: text },
      effects: place.of({ id, take, from, to: from + text.length }),
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of("take.commit")],
      selection,
    });
  }

  /** Puts another take in a passage's place: one step of the history. */
  put(id: string, take: string, text: string): void {
    const range = this.range(id);
    if (range === undefined) return;
    const { main } = this.view.state.selection;
    const inside = main.head >= range.from && main.head <= range.to;
    this.view.dispatch({
      changes: { from: range.from, to: range.to, insert: text },
      effects: place.of({ id, take, from: range.from, to: range.from + text.length }),
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of("take.put")],
      ...(inside ? { selection: { anchor: range.from + text.length } } : {}),
    });
  }

  /** A passage that was lifted from the text comes back at the cursor. */
  insert(id: string, take: string, text: string): void {
    const from = this.cursor;
    this.view.dispatch({
      changes: { from, insert: text },
      effects: place.of({ id, take, from, to: from + text.length }),
      selection: { anchor: from + text.length },
      annotations: isolateHistory.of("full"),
      scrollIntoView: true,
    });
  }
}
