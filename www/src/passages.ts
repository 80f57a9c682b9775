// The text is the document, exactly; a passage is a range of it that says which take fills it. Ranges move with every
// edit, and every change of them can be undone, because each transaction tells the history how to put them back.
import { invertedEffects } from "@codemirror/commands";
import { type ChangeDesc, type EditorState, StateEffect, StateField, type Transaction } from "@codemirror/state";

export interface PassageRange {
  id: string;
  from: number;
  to: number;
  /** The take whose text is here. */
  take: string;
}

const moved = (passage: PassageRange, changes: ChangeDesc): PassageRange => {
  // The history may pass a position beyond the end of this text.
  if (passage.to > changes.length) return passage;
  // Replacing the whole text removes the passage.
  let gone = false;
  changes.iterChangedRanges((from, to) => (gone ||= from < to && from <= passage.from && passage.to <= to), true);
  if (gone) {
    const at = changes.mapPos(passage.to, 1);
    return { ...passage, from: at, to: at };
  }
  // Text typed at either end belongs to the writer and stays outside.
  const from = changes.mapPos(passage.from, 1);
  return { ...passage, from, to: Math.max(from, changes.mapPos(passage.to, -1)) };
};

/** Adds a passage, at positions in the text after the transaction's changes. */
export const place = StateEffect.define<PassageRange>({ map: moved });
/** Removes a passage from the text. Its takes stay in the store. */
export const lift = StateEffect.define<string>();
/** The passage being written: it may be empty and cannot be edited. */
export const write = StateEffect.define<string | null>();

export const writing = StateField.define<string | null>({
  create: () => null,
  update: (id, tr) => tr.effects.reduce((now, effect) => (effect.is(write) ? effect.value : now), id),
});

/** A position that moves with the text around it while an answer is awaited. */
export const pin = StateEffect.define<number | null>();
export const pinned = StateField.define<number | null>({
  create: () => null,
  update(at, tr) {
    // What is typed at the place itself was not there when the request was made: it comes after.
    const now = at === null ? null : tr.changes.mapPos(at, -1);
    return tr.effects.reduce((last, effect) => (effect.is(pin) ? effect.value : last), now);
  },
});

function after(before: readonly PassageRange[], tr: Transaction): PassageRange[] {
  const open = tr.effects.reduce((now, effect) => (effect.is(write) ? effect.value : now), tr.startState.field(writing));
  let now = tr.docChanged ? before.map((passage) => moved(passage, tr.changes)) : [...before];
  for (const effect of tr.effects) {
    if (effect.is(place)) now = [...now.filter(({ id }) => id !== effect.value.id), effect.value];
    if (effect.is(lift)) now = now.filter(({ id }) => id !== effect.value);
  }
  return now.filter(({ id, from, to }) => from < to || id === open).toSorted((a, b) => a.from - b.from || a.to - b.to);
}

const same = (a: PassageRange, b: PassageRange): boolean => a.from === b.from && a.to === b.to && a.take === b.take;

export const passages: StateField<readonly PassageRange[]> = StateField.define<readonly PassageRange[]>({
  create: () => [],
  update: (before, tr) => (tr.docChanged || tr.effects.length > 0 ? after(before, tr) : before),
  provide: () =>
    invertedEffects.of((tr) => {
      const before = tr.startState.field(passages);
      const now = after(before, tr);
      const back = tr.changes.invertedDesc;
      const restored = before.filter((was) => {
        const is = now.find(({ id }) => id === was.id);
        return is === undefined || !same(moved(is, back), was);
      });
      const fresh = now.filter(({ id }) => !before.some((was) => was.id === id));
      return [...restored.map((passage) => place.of(passage)), ...fresh.map(({ id }) => lift.of(id))];
    }),
});

export const passageById = (state: EditorState, id: string | null): PassageRange | undefined =>
  state.field(passages).find((passage) => passage.id === id);

/** The passage the cursor touches; if two meet there, the one before it. */
export const passageAt = (state: EditorState, at: number): PassageRange | undefined =>
  state.field(passages).find(({ from, to }) => from <= at && at <= to);

/** The passage that text inserted at `at` would split. */
export const passageAround = (state: EditorState, at: number): PassageRange | undefined =>
  state.field(passages).find(({ from, to }) => from < at && at < to);
