// The state of the page, in one place. It is replaced, never changed in place; whoever shows it is told once per frame.
import type { Agreement, Reason } from "./sampler.worker";
import { isRun, type RunTake, shown, type Take } from "./takes";
import type { TokenTable } from "./tokens";
import type { PassageRange } from "./passages";
import { type FieldKey, usual } from "./settings";
import type { ModelInfo, Settings } from "./wire";

export type ServerStatus = "unknown" | "loading" | "ready" | "away";

export interface Work {
  take: string;
  passage: string;
  phase: "asking" | "writing" | "stopping" | "checking";
  /** Tokens so far, and in total. */
  token: number;
  of: number;
  /** A regeneration, which shows nothing new as long as it is equal. */
  repeating: boolean;
}

export interface Preview {
  take: string;
  seed: string;
  settings: Settings;
  /** Null while the first answer is computed, then the latest answer, */
  result: Agreement | null;
  /** which was for this seed. */
  answered: string;
}

/** “Why this word?” is open. */
export interface Why {
  passage: string;
  /** The take whose words are there. */
  take: RunTake;
  /** The token asked about, counted from 0 through the whole passage; null where the words are the writer's own. */
  at: number | null;
  /** The latest answer; null while the first is computed. */
  answer: Answered | null;
}

export interface Answered {
  /** The token it is about. */
  at: number;
  /** The take that decided it, and the index in it: not always the take that is shown there. */
  by: RunTake;
  step: number;
  reason: Reason;
}

export type Refused = ReadonlyMap<FieldKey, { typed: string; why: string }>;

export interface Notice {
  tone: "info" | "bad";
  text: string;
  code: string | null;
}

/** Whether what is on the screen is saved in the browser, is being saved, or could not be saved. */
export type Saved = "saved" | "saving" | "failed";

export interface State {
  saved: Saved;
  server: ServerStatus;
  loaded: { bytes: number; of: number };
  model: ModelInfo | null;
  table: TokenTable | null;
  story: string;
  stories: { id: string; title: string }[];
  takes: readonly Take[];
  ranges: readonly PassageRange[];
  /** The passage whose line is shown, to which Regenerate and New take apply. */
  active: string | null;
  /** The current text of the active passage, to tell whether the writer has edited it. */
  standing: string;
  /** The text before the active passage differs from the prompt of its take. */
  elsewhere: boolean;
  /** Where in the text the model would begin to read; null where it reads all before the cursor. */
  reads: number | null;
  settings: Settings;
  length: number;
  /** Null for a new seed each time. */
  seed: string | null;
  /** Typed values that are invalid, until they are corrected. */
  refused: Refused;
  /** The setting that was typed last: the focus comes back to it where nothing nearer is there. */
  lastSet: FieldKey;
  work: Work | null;
  preview: Preview | null;
  why: Why | null;
  notice: Notice | null;
  sheet: boolean;
}

/** Before a story is open and the server has answered. */
export const atFirst: State = {
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
  lastSet: "temperature",
  work: null,
  preview: null,
  why: null,
  notice: null,
  sheet: false,
};

export class Live {
  #state: State;
  readonly #listeners: (() => void)[] = [];
  #scheduled = false;

  constructor(first: State) {
    this.#state = first;
  }

  get now(): State {
    return this.#state;
  }

  set(patch: Partial<State>): void {
    this.#state = { ...this.#state, ...patch };
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      for (const tell of this.#listeners) tell();
    });
  }

  /** Adds a take or replaces the one of that id. */
  setTake(take: Take): void {
    const { takes, story } = this.#state;
    // Work for a story that is no longer open only updates the store.
    if (take.story !== story) return;
    const known = takes.some(({ id }) => id === take.id);
    this.set({ takes: known ? takes.map((one) => (one.id === take.id ? take : one)) : [...takes, take] });
  }

  dropTake(id: string): void {
    this.set({ takes: this.#state.takes.filter((take) => take.id !== id) });
  }

  listen(tell: () => void): void {
    this.#listeners.push(tell);
  }
}

export const takeById = (state: State, id: string | null | undefined): Take | undefined =>
  state.takes.find((take) => take.id === id);
export const rangeOf = (state: State, passage: string | null): PassageRange | undefined =>
  state.ranges.find(({ id }) => id === passage);
export const takesOf = (state: State, passage: string): Take[] => shown(state.takes, passage);
/** The current take of a passage. */
export const current = (state: State, passage: string | null): Take | undefined => takeById(state, rangeOf(state, passage)?.take);
export const activeTake = (state: State): Take | undefined => current(state, state.active);
export const isEdited = (state: State): boolean => {
  const take = activeTake(state);
  return take !== undefined && state.work?.take !== take.id && state.standing !== take.text;
};
/** Interrupted by a lost connection or a closed page, and not being written now. */
export const isCut = (state: State, take: Take | undefined): take is RunTake =>
  isRun(take) && take.status === "writing" && state.work?.take !== take.id;
/** The interrupted regeneration of a take. */
export const cutRepeat = (state: State, take: Take | undefined): RunTake | undefined =>
  take === undefined
    ? undefined
    : state.takes.find((one): one is RunTake => isRun(one) && one.repeats === take.id && isCut(state, one));
export const nextNumber = (state: State, passage: string): number =>
  Math.max(0, ...takesOf(state, passage).map(({ number }) => number)) + 1;

/** Passages that were deleted from the text: the newest take of each. */
export function lostPassages(state: State): Take[] {
  const there = new Set(state.ranges.map(({ id }) => id));
  const gone = new Map<string, Take>();
  for (const take of state.takes)
    if (!there.has(take.passage) && take.text.trim() !== "" && (take.kind === "hand" || take.repeats === null))
      gone.set(take.passage, take);
  return [...gone.values()];
}
