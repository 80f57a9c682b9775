// Takes: their data and the functions on them.
import type { Claim, Comparison, Environment } from "@quillmate/sampler";
import { sameProcessors, sayProcessor } from "./processors";
import type { GeneratorState, Model, Settings, Verdict } from "./wire";

interface Common {
  id: string;
  story: string;
  passage: string;
  /** The number within the passage, from 1; never reused. */
  number: number;
  text: string;
}

/** The writer's own version of a passage, kept when another take is put in its place. */
export interface HandTake extends Common {
  kind: "hand";
  /** The take it was made from: words that are still that take's have their reasons there. */
  of?: string;
  /** It is the beginning of that take, cut off where another passage was put in. */
  cut?: true;
}

/** A verdict, and what it covers: later tokens were not checked. */
export interface Checked {
  verdict: Verdict;
  /** How many tokens the take had. */
  tokens: number;
  /** In milliseconds since 1970; null where that was not recorded. */
  when: number | null;
}

export interface Made {
  crate_version: string | null;
  target: string | null;
  /** The circumstances; missing in takes kept before they were recorded. */
  environment?: Environment;
}

export interface Compared {
  /** Which record, in the writer's words. */
  other: string;
  outcome: Comparison["outcome"];
  paragraph: string;
  /** How many tokens the take had, and when; missing where that was not recorded. */
  tokens?: number;
  when?: number;
}

/** A passage the browser sampled. Its frames are stored separately. */
export interface RunTake extends Common {
  kind: "run";
  /** The server's name for the run; null when the take came from a file. */
  run: string | null;
  model: Model;
  /** The prompt of the run. */
  prompt: string;
  /** The prompt was the whole text before the passage, not only its end; missing if that was not recorded. */
  whole?: boolean;
  length: number;
  /** Tokens of the passage before the run's own: kept from another take, the last of them the writer's choice. */
  lead?: number[];
  /** The take those tokens were kept from, which has their frames. Missing in takes kept before it was recorded. */
  branch?: string;
  /** The generator before the first token: with the frames, all a replay needs. */
  start: GeneratorState;
  tokens: number[];
  /** Of the frame each token was sampled from. */
  checksums: string[];
  /** `writing` until the end has arrived, also over a reload. */
  status: "writing" | "done" | "failed";
  reason: string | null;
  /** What the server said when it recomputed the take. */
  verdict: Checked | null;
  /** What the last replay in the browser said. */
  replay: Checked | null;
  /** How many tokens the last regeneration gave again, all of them equal, and when. */
  again: { tokens: number; when: number | null } | null;
  /** Set on the run of a regeneration: the take it is to give again. Such a take is shown only if it differs. */
  repeats: string | null;
  /** Where a regeneration that should have been equal parted from its take, and why. */
  parted: { at: number; why: "model" | "prompt" | "logits"; from?: string } | null;
  /** What chose the tokens here; missing in takes kept before it was recorded, and null where a file does not say. */
  made?: Made | null;
  /** The tokens after which the model's text is over; missing or null as above. */
  end_tokens?: number[] | null;
  /** The constraint of a run from a file. */
  constraint?: string | null;
  /** The comparison of the take with another record. */
  compared?: Compared | null;
  /** What stood in the passage before, for one undo to give back, also over a reload. */
  replaces: { text: string; take: string } | null;
}

export type Take = HandTake | RunTake;

/** What a run adds to its take, and the results of later checks. */
type Later =
  "tokens" | "text" | "checksums" | "status" | "reason" | "verdict" | "replay" | "again" | "repeats" | "parted" | "replaces";

/** What a take is made from: what comes later may be given, where it is known already. */
export type NewRun = Omit<RunTake, "kind" | Later> & Partial<Pick<RunTake, Later>>;

export function runTake({ whole, lead, branch, ...given }: NewRun): RunTake {
  return {
    kind: "run",
    tokens: [],
    text: "",
    checksums: [],
    status: "writing",
    reason: null,
    verdict: null,
    replay: null,
    again: null,
    repeats: null,
    parted: null,
    replaces: null,
    ...given,
    // The store keeps a property that is undefined; these are to be missing.
    ...(whole === undefined ? {} : { whole }),
    ...(lead === undefined ? {} : { lead }),
    ...(branch === undefined ? {} : { branch }),
  };
}

export const isRun = (take: Take | undefined | null): take is RunTake => take?.kind === "run";

/** The takes of a passage the writer sees: a regeneration shows only once it differs. */
export const shown = (takes: readonly Take[], passage: string): Take[] =>
  takes
    .filter((take) => take.passage === passage && (take.kind === "hand" || take.repeats === null))
    .toSorted((a, b) => a.number - b.number);

/** All tokens of the passage, as its text has them. */
export const tokensOf = ({ lead = [] }: RunTake, tokens: readonly number[]): number[] => [...lead, ...tokens];

/** The spaces at the end of a take's prompt. Its text goes on from there; others bring their own. */
export const joinOf = (take: Take): string | null => (isRun(take) ? (/[ \t\u00a0]*$/.exec(take.prompt)?.[0] ?? "") : null);

/** Where token `at` of a passage was decided: in the take itself, or in the one it was kept from. */
export function decidedBy(take: RunTake, at: number, takes: readonly Take[]): { take: RunTake; step: number } | null {
  const lead = take.lead ?? [];
  if (at >= lead.length) return at - lead.length < take.tokens.length ? { take, step: at - lead.length } : null;
  const source = takes.find((one) => one.id === take.branch) ?? sourceOf(take, takes);
  return isRun(source) && source.id !== take.id ? decidedBy(source, at, takes) : null;
}

/** For takes that do not say what they were kept from: the one that has the same tokens, after the same text, at each step. */
function sourceOf({ id, passage, start, lead = [], model }: RunTake, takes: readonly Take[]): RunTake | undefined {
  const kept = lead.slice(0, -1);
  const beginning = start.prompt.slice(0, start.prompt.length - lead.length);
  return takes.filter(isRun).find((one) => {
    const all = tokensOf(one, one.tokens);
    return (
      one.id !== id &&
      one.passage === passage &&
      one.model.sha256 === model.sha256 &&
      one.start.seed === start.seed &&
      sameSettings(one.start.settings, start.settings) &&
      all.length > kept.length &&
      firstDifference(all.slice(0, kept.length), kept) === null &&
      firstDifference(one.start.prompt.slice(0, one.start.prompt.length - (one.lead ?? []).length), beginning) === null
    );
  });
}

/** The state after the take's last token: what a generator resumes from. */
export function reached(take: RunTake): GeneratorState {
  const { start, tokens } = take;
  return { ...start, step: start.step + tokens.length, tokens: [...start.tokens, ...tokens] };
}

/** Unknown circumstances. */
export const unknownEnvironment: Environment = {
  build_features: null,
  server: null,
  cpu_features: null,
  kernels: null,
  threads: null,
  drafts: null,
};

const both = (one: string | null, other: string | null): string | null =>
  one === null || other === null || one === other || one.endsWith(`, then ${other}`) ? one : `${one}, then ${other}`;

/** Who chose a take's tokens once this release goes on with it: a take begun by another keeps its name. */
export function madeBy(take: RunTake, now: Made): Made | null {
  const before = take.made ?? null;
  if (take.tokens.length === 0) return now;
  if (before === null) return null;
  const { environment: old = unknownEnvironment } = before;
  const { environment: here = unknownEnvironment } = now;
  return {
    crate_version: both(before.crate_version, now.crate_version),
    target: both(before.target, now.target),
    environment: {
      build_features: both(old.build_features, here.build_features),
      server: both(old.server, here.server),
      cpu_features: both(old.cpu_features, here.cpu_features),
      kernels: both(old.kernels, here.kernels),
      threads: both(old.threads, here.threads),
      drafts: both(old.drafts, here.drafts),
    },
  };
}

/** What this browser says it sampled, for the server (or a replay) to check. */
export function claimOf(take: RunTake): Claim {
  return { tokens: take.tokens, state: reached(take), frame_checksums: take.checksums };
}

export const sameSettings = (a: Settings, b: Settings): boolean =>
  a.temperature === b.temperature && a.top_k === b.top_k && a.top_p === b.top_p && sameProcessors(a.processors, b.processors);

export function describeSettings({ temperature, top_k, top_p, processors = [] }: Settings): string {
  const chosen =
    temperature === 0
      ? ["T 0", "always the likeliest word"]
      : [`T ${temperature}`, top_k === 0 ? "top-k off" : `top-k ${top_k}`, top_p === 1 ? "top-p off" : `top-p ${top_p}`];
  return [...chosen, ...processors.map(sayProcessor)].join(", ");
}

export const plural = (n: number, one: string): string => `${n} ${one}${n === 1 ? "" : "s"}`;

/** The first index at which two lists of tokens differ; null when they do not. */
export function firstDifference(a: readonly number[], b: readonly number[]): number | null {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) if (a[i] !== b[i]) return i;
  return a.length === b.length ? null : shorter;
}
