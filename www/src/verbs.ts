// The actions of a writer, by button or key. Views take the interfaces they need; actions.ts implements them.
import type { FieldKey } from "./settings";
import type { RunTake } from "./takes";

export interface WritingVerbs {
  generate: () => void;
  stop: () => void;
  regenerate: () => void;
  newTake: () => void;
}

export interface PassageVerbs {
  show: (passage: string, take: string) => void;
  restore: (passage: string) => void;
  putBack: (passage: string) => void;
}

export interface TakeVerbs {
  resume: (take: RunTake) => void;
  verify: (take: RunTake) => void;
  replay: (take: RunTake) => void;
  compare: (take: RunTake, file: File) => void;
  compareWithServer: (take: RunTake) => void;
  copySeed: (seed: string) => void;
  useSettings: (take: RunTake) => void;
  saveRecord: (take: RunTake) => void;
  copyVector: (take: RunTake) => void;
}

export interface WhyVerbs {
  /** “Why this word?”: at the cursor, or in this passage. */
  why: (passage: string | null) => void;
  whyStep: (by: number) => void;
  takeInstead: (take: RunTake, at: number, word: number) => void;
  closeWhy: () => void;
}

export interface SettingsVerbs {
  set: (field: FieldKey, typed: string) => void;
  freshSeed: () => void;
  /** Removes the processors that have no control here. */
  plainProcessors: () => void;
  toggleSheet: () => void;
}

export interface PreviewVerbs {
  goOn: () => void;
  closePreview: () => void;
}

export interface StoryVerbs {
  newStory: () => void;
  openStory: (id: string) => void;
  openRecord: (file: File) => void;
  copyText: () => void;
}

export interface NoticeVerbs {
  dismiss: () => void;
}

export type Verbs = WritingVerbs & PassageVerbs & TakeVerbs & WhyVerbs & SettingsVerbs & PreviewVerbs & StoryVerbs & NoticeVerbs;
