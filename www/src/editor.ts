// The paper: CodeMirror in a shadow root, so that its styles are adopted sheets and the page needs no inline style. It
// shows the manuscript and says what the writer does to it.
import { defaultKeymap, historyKeymap } from "@codemirror/commands";
import { closeSearchPanel, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import {
  Annotation,
  Compartment,
  EditorSelection,
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
import { Manuscript, manuscript, opened, spacesBefore } from "./manuscript";
import { passageAt, passageById, type PassageRange, passages, pinned, writing } from "./passages";

/** Decorations of the text. */
export interface Overlay {
  active: string | null;
  /** Passages with more than one take. */
  several: readonly string[];
  /** A preview: how many characters of the passage stay the same before another token. */
  preview: { passage: string; stays: number; instead: string } | null;
  /** A regeneration: how many characters have been reproduced. */
  again: { passage: string; upTo: number } | null;
  /** The word asked about, in characters of the passage. */
  asked: { passage: string; from: number; to: number } | null;
  /** Where the model's prompt begins; null if it is all the text before the cursor. */
  reads: number | null;
}

export interface EditorEvents {
  /** The text, the passages or the cursor changed (`moved`). `typed` when the writer did it. */
  changed: (what: { doc: boolean; moved: boolean; typed: boolean; passage: string | null }) => void;
  /** Undo while a passage is written only stops the writing. */
  stop: () => void;
}

const setOverlay = StateEffect.define<Overlay>();
const nothing: Overlay = { active: null, several: [], preview: null, again: null, asked: null, reads: null };
const overlay = StateField.define<Overlay>({
  create: () => nothing,
  update: (now, tr) => tr.effects.reduce((last, effect) => (effect.is(setOverlay) ? effect.value : last), now),
});

const letGo = Annotation.define<boolean>();

/**
 * A cursor where a line wraps belongs to one of the two lines, and CodeMirror (6.43) sets the browser's selection again for
 * it in the frame after the focus went elsewhere; Chromium then moves the focus back into the text. Without focus there is
 * no cursor to see, so it belongs to neither.
 */
const staysAway = EditorView.domEventObservers({
  blur(_, view) {
    // Deferred: the focus may change during an update.
    queueMicrotask(() => {
      const { main } = view.state.selection;
      if (view.hasFocus || !main.empty || main.assoc === 0) return;
      view.dispatch({
        selection: EditorSelection.cursor(main.head),
        annotations: [letGo.of(true), Transaction.addToHistory.of(false)],
      });
    });
  },
});

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

/** These take no space in the text, so that words do not move with the cursor. */
function decorate(state: EditorState): DecorationSet {
  const { active, several, preview, again, asked, reads } = state.field(overlay);
  const open = state.field(writing);
  const marks: Range<Decoration>[] = [];
  if (reads !== null && reads < state.doc.length) {
    marks.push(Decoration.line({ class: "qm-reads" }).range(state.doc.lineAt(reads).from));
    marks.push(Decoration.mark({ class: "qm-reads-word" }).range(reads, reads + 1));
  }
  for (const { id, from, to } of state.field(passages)) {
    const more = `${id === active ? " qm-active" : ""}${id === open ? " qm-writing" : ""}${several.includes(id) ? " qm-several" : ""}`;
    if (from < to) marks.push(Decoration.mark({ class: `qm-passage${more}` }).range(from, to));
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

const BEGIN = "Write the beginning of a story, or paste one.";

export class Editor {
  readonly view: EditorView;
  readonly manuscript: Manuscript;
  readonly #root: ShadowRoot;
  readonly #lock = new Compartment();
  #locked: string | null;
  #events: EditorEvents | null = null;
  #keys: Extension = [];

  /** The editor is read-only until a text is opened; `why` is the message until then. */
  constructor(host: HTMLElement, why: string) {
    this.#locked = why;
    this.#root = host.attachShadow({ mode: "open", delegatesFocus: true });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(sheetText);
    this.#root.adoptedStyleSheets = [sheet];
    this.view = new EditorView({ root: this.#root, parent: this.#root, state: this.#fresh("", [], 0) });
    this.manuscript = new Manuscript(this.view);
    // CodeMirror adopts its own sheets in front; ours come last and win.
    this.#root.adoptedStyleSheets = [...this.#root.adoptedStyleSheets.filter((one) => one !== sheet), sheet];
    // A line that comes or goes below the paper must not hide the cursor.
    new ResizeObserver(() => this.#keepInSight()).observe(host);
  }

  /** From here on the page hears what is done; texts opened later have these keys. */
  start(events: EditorEvents, keys: Extension): void {
    this.#events = events;
    this.#keys = keys;
  }

  #fresh(doc: string, ranges: readonly PassageRange[], cursor: number): EditorState {
    return opened(doc, ranges, cursor, [
      EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, "\n")),
      manuscript(),
      overlay,
      this.#lock.of(locking(this.#locked)),
      this.#keys,
      Prec.highest([
        // No key and no menu may undo into a passage that is being written.
        keymap.of(
          ["Mod-z", "Mod-y", "Mod-Shift-z", "Mod-u", "Alt-u"].map((key) => ({ key, run: (view) => this.#stopped(view) })),
        ),
        EditorView.domEventHandlers({
          beforeinput: (event, view) => /^history(Undo|Redo)$/.test(event.inputType) && this.#stopped(view),
        }),
      ]),
      search({ top: true }),
      keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap]),
      EditorView.lineWrapping,
      staysAway,
      EditorView.contentAttributes.of({
        "aria-label": "Your story",
        tabindex: "0",
        spellcheck: "true",
        autocapitalize: "sentences",
        autocorrect: "on",
      }),
      EditorView.decorations.compute([passages, overlay, writing, "doc"], decorate),
      EditorView.updateListener.of((update) => {
        if (update.transactions.some((tr) => tr.annotation(letGo) === true)) return;
        for (const tr of update.transactions) this.manuscript.follow(tr);
        if (!update.docChanged && !update.selectionSet && update.startState.field(passages) === update.state.field(passages))
          return;
        const typed = update.transactions.some(
          (tr) => tr.isUserEvent("input") || tr.isUserEvent("delete") || tr.isUserEvent("undo") || tr.isUserEvent("redo"),
        );
        const touched = update.selectionSet || typed ? passageAt(update.state, update.state.selection.main.head) : undefined;
        this.#events?.changed({ doc: update.docChanged, moved: update.selectionSet, typed, passage: touched?.id ?? null });
      }),
    ]);
  }

  #stopped(view: EditorView): boolean {
    if (view.state.field(writing) === null) return false;
    this.#events?.stop();
    return true;
  }

  /** Makes the editor read-only and says why; null makes it writable. */
  lock(why: string | null): void {
    this.#locked = why;
    this.view.dispatch({ effects: this.#lock.reconfigure(locking(why)) });
  }

  get locked(): boolean {
    return this.#locked !== null;
  }

  /** Opens another text, with its own history. */
  open(doc: string, ranges: readonly PassageRange[], cursor: number): void {
    this.manuscript.forget();
    this.#locked = null;
    this.view.setState(this.#fresh(doc, ranges, cursor));
  }

  get text(): string {
    return this.view.state.doc.toString();
  }
  get cursor(): number {
    return this.view.state.selection.main.to;
  }
  /** The position of the caret, or the end of the selection. */
  get head(): number {
    return this.view.state.selection.main.head;
  }
  get ranges(): readonly PassageRange[] {
    return this.view.state.field(passages);
  }
  /** The current position of the pin. */
  get pinned(): number | null {
    return this.view.state.field(pinned);
  }
  range(passage: string | null): PassageRange | undefined {
    return passageById(this.view.state, passage);
  }
  textOf(passage: string): string {
    return this.manuscript.textOf(passage);
  }
  /** All that stands before a place, without the spaces at its end: a text that follows brings its own. */
  before(at: number): string {
    return this.view.state.sliceDoc(0, at - spacesBefore(this.view.state, at));
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
    // Scrolls to where a preview differs from the take.
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

  /** The paper has another height: the cursor stays in sight. Elsewhere the writer may look where they like. */
  #keepInSight(): void {
    if (this.view.hasFocus) this.view.dispatch({ effects: EditorView.scrollIntoView(this.head, { y: "nearest" }) });
  }

  /** The editor's own search, which also finds text that is not rendered. */
  search(): void {
    if (this.locked) return;
    openSearchPanel(this.view);
  }
  closeSearch(): boolean {
    return closeSearchPanel(this.view);
  }
}

const locking = (why: string | null): Extension =>
  why === null
    ? placeholder(BEGIN)
    : [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        placeholder(why),
        EditorView.editorAttributes.of({ class: "qm-locked" }),
      ];
