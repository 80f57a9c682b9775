// What can be done to the text and its passages, each as one step of the history. It needs an editor's state and a way
// to change it, and no browser.
import { history, historyField, isolateHistory } from "@codemirror/commands";
import { Compartment, EditorState, type Extension, StateEffect, Transaction, type TransactionSpec } from "@codemirror/state";
import { lift, passageAround, passageById, type PassageRange, passages, pin, pinned, place, write, writing } from "./passages";

/** An `EditorView`, or anything else that holds a state and applies transactions to it. */
export interface Target {
  readonly state: EditorState;
  dispatch: (...specs: TransactionSpec[]) => void;
}

/** A passage that would be split at a position, and the text it would keep. */
export interface Cut {
  passage: PassageRange;
  head: string;
}

/** While a passage is written: the text as it is without what is being written, with its history. */
interface Behind {
  state: EditorState;
  /** The region of that text which the open passage stands in for. */
  from: number;
  to: number;
  /** What becomes of other passages' ranges when the open one goes in. */
  effects: readonly StateEffect<unknown>[];
}

const quiet = Transaction.addToHistory.of(false);
const compartment = new Compartment();

/** How many spaces and tabs stand directly before `at`. */
export function spacesBefore(state: EditorState, at: number): number {
  const line = state.doc.lineAt(at);
  return /[ \t\u00a0]*$/.exec(line.text.slice(0, at - line.from))?.[0].length ?? 0;
}

/** The fields a manuscript needs in its state. */
export const manuscript = (): Extension => [
  // "\n" alone ends a line, so that the document is the text to the character.
  EditorState.lineSeparator.of("\n"),
  writing,
  pinned,
  passages,
  compartment.of(history()),
  // While a passage is being written, the writer's edits stay out of it.
  EditorState.changeFilter.of((tr) => {
    const open = passageById(tr.startState, tr.startState.field(writing));
    return open === undefined || tr.annotation(Transaction.addToHistory) === false || open.from === open.to
      ? true
      : [open.from, open.to];
  }),
];

/** A state with this text and these passages, and nothing to undo. */
export function opened(doc: string, ranges: readonly PassageRange[], cursor: number, extensions: Extension): EditorState {
  let end = 0;
  const sane = ranges
    .toSorted((a, b) => a.from - b.from)
    // What a damaged store, or an older page, says about a place that is not there is left out.
    .filter(({ from, to }) => {
      const fits = from >= end && from < to && to <= doc.length;
      if (fits) end = to;
      return fits;
    });
  const state = EditorState.create({ doc, selection: { anchor: Math.min(Math.max(cursor, 0), doc.length) }, extensions });
  return sane.length === 0 ? state : state.update({ effects: sane.map((range) => place.of(range)), annotations: quiet }).state;
}

export class Manuscript {
  #behind: Behind | null = null;

  constructor(private readonly target: Target) {}

  get state(): EditorState {
    return this.target.state;
  }

  /** Resets for another text. */
  forget(): void {
    this.#behind = null;
  }

  /** Stores a position until it is used or replaced. */
  pin(at: number | null): void {
    this.target.dispatch({ effects: pin.of(at), annotations: quiet });
  }

  range(passage: string | null): PassageRange | undefined {
    return passageById(this.state, passage);
  }

  textOf(passage: string): string {
    const range = this.range(passage);
    return range === undefined ? "" : this.state.sliceDoc(range.from, range.to);
  }

  /** What text inserted at `at` would leave of a passage there; null if it splits none. */
  cutAt(at: number): Cut | null {
    const from = at - spacesBefore(this.state, at);
    const passage = passageAround(this.state, from);
    return passage === undefined ? null : { passage, head: this.state.sliceDoc(passage.from, from) };
  }

  /** Each passage that reaches into what a text at `from` to `at` replaces keeps what stands before it, and no more. */
  #cutting(from: number, at: number, head: string | undefined): StateEffect<unknown>[] {
    return this.state
      .field(passages)
      .filter((one) => one.from < at && from < one.to)
      .map((one) => (one.from < from ? place.of({ ...one, to: from, take: head ?? one.take }) : lift.of(one.id)));
  }

  /**
   * Opens a passage for writing with the text it has so far: the one that is there, or else a new one at `at`. What is
   * written stays outside the history until `commit` puts it in as one step. Spaces directly before the passage are held
   * back from the model, so its text brings its own, and they make way; `join` is what the take's prompt kept of them.
   * `head` is the take that is to stand for what is left of a passage that is cut in two.
   */
  begin(
    id: string,
    take: string,
    text: string,
    at: number | null,
    { head, join = "" }: { head?: string; join?: string } = {},
  ): void {
    const { state } = this;
    const there = this.range(id);
    if (there === undefined && at === null) return;
    const start = Math.min(there?.from ?? at ?? 0, state.doc.length);
    const held = spacesBefore(state, start);
    const from = state.sliceDoc(start - held, start) === join ? start : start - held;
    const to = there?.to ?? start;
    const effects = this.#cutting(from, start, head);
    this.#behind = { state, from, to, effects };
    const { main } = state.selection;
    const along = main.empty && main.head >= from && main.head <= to;
    this.target.dispatch({
      changes: { from, to, insert: text },
      effects: [pin.of(null), write.of(id), ...effects, place.of({ id, take, from, to: from + text.length })],
      annotations: quiet,
      ...(along ? { selection: { anchor: from + text.length } } : {}),
    });
  }

  /** Puts a text in a passage's place outside the history: what was there when the page was closed. */
  recover(id: string, take: string, text: string): void {
    const range = this.range(id);
    if (range === undefined) return;
    const { from, to } = range;
    this.target.dispatch({
      changes: { from, to, insert: text },
      effects: place.of({ id, take, from, to: from + text.length }),
      annotations: quiet,
    });
  }

  /** Makes the open passage's text `text`, which only ever grows; the cursor goes along if it stood at the end. */
  grow(id: string, text: string): void {
    const range = this.range(id);
    if (range === undefined || this.state.field(writing) !== id) return;
    const has = this.state.sliceDoc(range.from, range.to);
    if (has === text) return;
    const keep = text.startsWith(has) ? has.length : 0;
    const from = range.from + keep;
    const insert = text.slice(keep);
    const { main } = this.state.selection;
    const along = main.empty && main.head === range.to;
    this.target.dispatch({
      changes: { from, to: range.to, insert },
      effects: place.of({ ...range, to: from + insert.length }),
      annotations: quiet,
      ...(along ? { selection: { anchor: from + insert.length }, scrollIntoView: true } : {}),
    });
  }

  /**
   * Closes the passage and writes it into the history as one step. A history cannot take in afterwards what it was not
   * told. So the step is done to the text behind, which leads to the very text that stands there, and the history that
   * has seen it takes the place of the one that has not. No character of the text changes, and so the view does not move.
   */
  commit(id: string): void {
    const range = this.range(id);
    const behind = this.#behind;
    this.#behind = null;
    if (range === undefined || behind === null || this.state.field(writing) !== id) {
      this.target.dispatch({ effects: write.of(null), annotations: quiet });
      return;
    }
    const text = this.state.sliceDoc(range.from, range.to);
    const before = passageById(behind.state, id);
    // No text arrived: everything is restored.
    if (text === "" || (before?.take === range.take && behind.state.doc.eq(this.state.doc))) return this.#giveBack(range, behind);
    const { state, from, to, effects } = behind;
    const settled = state.update({
      changes: { from, to, insert: text },
      effects: [...effects, place.of(range)],
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of("take.commit")],
      filter: false,
    }).state;
    this.target.dispatch({ effects: [write.of(null), this.#history(settled)], annotations: quiet });
  }

  #giveBack({ id, from, to }: PassageRange, behind: Behind): void {
    const insert = behind.state.sliceDoc(behind.from, behind.to);
    const { main } = this.state.selection;
    this.target.dispatch({
      changes: { from, to, insert },
      effects: [write.of(null), lift.of(id), ...behind.state.field(passages).map((passage) => place.of(passage))],
      annotations: quiet,
      ...(main.empty && main.head === to ? { selection: { anchor: from + insert.length } } : {}),
    });
    // Not before: a history is of the text that the transaction leads to, and would be moved along with the change.
    this.target.dispatch({ effects: this.#history(behind.state), annotations: quiet });
  }

  #history(from: EditorState): StateEffect<unknown> {
    return compartment.reconfigure([history(), historyField.init(() => from.field(historyField))]);
  }

  /**
   * To be told of every transaction. What the writer does elsewhere while a passage is written is done to the text behind
   * it too, and enters its history.
   */
  follow(tr: Transaction): void {
    const open = passageById(tr.startState, tr.startState.field(writing));
    const behind = this.#behind;
    if (behind === null || open === undefined || tr.annotation(Transaction.addToHistory) === false) return;
    const effects = tr.effects.filter((effect) => effect.is(place) || effect.is(lift));
    if (!tr.docChanged && effects.length === 0) return;
    const by = behind.to - behind.from - (open.to - open.from);
    const changes: { from: number; to: number; insert: string }[] = [];
    tr.changes.iterChanges((from, to, _from, _to, inserted) => {
      const insert = inserted.sliceString(0, undefined, "\n");
      if (to <= open.from) changes.push({ from, to, insert });
      else if (from >= open.to) changes.push({ from: from + by, to: to + by, insert });
      // An open passage that is still empty may lie inside what is taken out: what it stands in for stays.
      else changes.push({ from, to: behind.from, insert }, { from: behind.to, to: to + by, insert: "" });
    }, true);
    const next = passageById(tr.state, open.id);
    if (next === undefined) return;
    const beyond = (at: number): number => (at <= next.from ? at : at + by);
    const userEvent = tr.annotation(Transaction.userEvent);
    const isolate = tr.annotation(isolateHistory);
    const step = behind.state.update({
      changes,
      effects: effects.map((effect) =>
        effect.is(place) ? place.of({ ...effect.value, from: beyond(effect.value.from), to: beyond(effect.value.to) }) : effect,
      ),
      annotations: [
        ...(userEvent === undefined ? [] : [Transaction.userEvent.of(userEvent)]),
        ...(isolate === undefined ? [] : [isolateHistory.of(isolate)]),
      ],
      filter: false,
    });
    this.#behind = {
      state: step.state,
      from: next.from,
      to: next.from + (behind.to - behind.from),
      effects: StateEffect.mapEffects(behind.effects, step.changes),
    };
  }

  /**
   * Puts another take in a passage's place: one step of the history. `join` is what the take's prompt ended with in spaces;
   * null for a text that goes in where the passage is.
   */
  put(id: string, take: string, text: string, join: string | null = null): void {
    const range = this.range(id);
    if (range === undefined) return;
    // Spaces that belong to another passage stay with it.
    const lead = join === null || this.cutAt(range.from) !== null ? null : join;
    const start = lead === null ? range.from : range.from - spacesBefore(this.state, range.from);
    const { main } = this.state.selection;
    const inside = main.head >= range.from && main.head <= range.to;
    const from = start + (lead ?? "").length;
    this.target.dispatch({
      changes: { from: start, to: range.to, insert: (lead ?? "") + text },
      effects: place.of({ id, take, from, to: from + text.length }),
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of("take.put")],
      ...(inside ? { selection: { anchor: from + text.length }, scrollIntoView: true } : {}),
    });
  }

  /** Inserts a removed passage at a position. */
  insert(id: string, take: string, text: string, at: number, head?: string): void {
    if (this.range(id) !== undefined) return this.put(id, take, text);
    // Nothing goes into the passage that is being written: beside it, then.
    const open = passageById(this.state, this.state.field(writing));
    const to = open !== undefined && open.from <= at && at <= open.to ? open.to : at;
    const from = to - (open?.to === to ? 0 : spacesBefore(this.state, to));
    this.target.dispatch({
      changes: { from, to, insert: text },
      effects: [...this.#cutting(from, to, head), place.of({ id, take, from, to: from + text.length })],
      selection: { anchor: from + text.length },
      annotations: [isolateHistory.of("full"), Transaction.userEvent.of("take.insert")],
      scrollIntoView: true,
    });
  }
}
