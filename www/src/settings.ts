// The settings a writer can turn, each with its range, one plain sentence, and what a typed value may be.
import { isSeed } from "./check";
import { amountOf, type Knob, turned } from "./processors";
import type { Settings } from "./wire";

export interface Field {
  key: Exclude<keyof Settings, "processors"> | Knob | "length" | "seed";
  label: string;
  /** What it does, in one sentence. */
  sentence: string;
  /** Of the slider; a typed number may lie beyond. */
  max: number;
  step: number;
  min: number;
  /** Why a typed value cannot be taken; null if it can. */
  refuse(typed: string): string | null;
}

export type FieldKey = Field["key"];

const isWhole = (typed: string): boolean => /^\d+$/.test(typed.trim());
const isNumber = (typed: string): boolean =>
  /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed.trim()) && Number.isFinite(Number(typed));

export const LONGEST = 512;

export const fields: readonly Field[] = [
  {
    key: "temperature",
    label: "Temperature",
    sentence: "How bold the choice of words is: 0 always takes the likeliest, 1 takes them as the model rates them.",
    min: 0,
    max: 2,
    step: 0.05,
    refuse: (typed) => (isNumber(typed) ? null : "A number from 0 up, such as 0.8."),
  },
  {
    key: "top_k",
    label: "Top-k",
    sentence: "Keep only this many of the likeliest words; 0 keeps all.",
    min: 0,
    max: 200,
    step: 1,
    refuse: (typed) => (isWhole(typed) && Number(typed) <= 4294967295 ? null : "A whole number, such as 50; 0 is off."),
  },
  {
    key: "top_p",
    label: "Top-p",
    sentence: "Keep the likeliest words until they hold this share of the probability; 1 keeps all.",
    min: 0,
    max: 1,
    step: 0.01,
    refuse: (typed) => (isNumber(typed) && Number(typed) <= 1 ? null : "A number from 0 to 1, such as 0.95."),
  },
  {
    key: "seed",
    label: "Seed",
    sentence: "The number the dice start from: the same seed with the same settings gives the same text.",
    min: 0,
    max: 9999,
    step: 1,
    refuse: (typed) => (isSeed(typed.trim()) ? null : "A whole number from 0 to 18446744073709551615."),
  },
  {
    key: "length",
    label: "Length",
    sentence: "How many tokens to write; a token is a word or a piece of one.",
    min: 1,
    max: 200,
    step: 1,
    refuse: (typed) =>
      isWhole(typed) && Number(typed) >= 1 && Number(typed) <= LONGEST ? null : `A whole number from 1 to ${LONGEST}.`,
  },
];

/** What a writer seldom needs: these are processors, in the order they act. */
export const knobs: readonly (Field & { key: Knob })[] = [
  {
    key: "repetition_penalty",
    label: "Repetition",
    sentence: "Make words of the last 256 tokens less likely to come again; 1 is off.",
    min: 1,
    max: 1.5,
    step: 0.01,
    refuse: (typed) => (isNumber(typed) && Number(typed) > 0 ? null : "A number above 0, such as 1.1; 1 is off."),
  },
  {
    key: "dry",
    label: "Avoid loops",
    sentence: "Hold back a word that would go on repeating a phrase, the more the longer the phrase; 0 is off.",
    min: 0,
    max: 2,
    step: 0.05,
    refuse: (typed) => (isNumber(typed) ? null : "A number from 0 up, such as 0.8; 0 is off."),
  },
  {
    key: "min_p",
    label: "Min-p",
    sentence: "Keep only words with at least this share of the likeliest word's chance; 0 is off.",
    min: 0,
    max: 0.5,
    step: 0.01,
    refuse: (typed) => (isNumber(typed) && Number(typed) <= 1 ? null : "A number from 0 to 1, such as 0.05; 0 is off."),
  },
  {
    key: "xtc",
    label: "Surprise",
    sentence: "How often to pass over the obvious: of the words above 10 %, only the least likely stays; 0 is never.",
    min: 0,
    max: 1,
    step: 0.05,
    refuse: (typed) => (isNumber(typed) && Number(typed) <= 1 ? null : "A number from 0 to 1, such as 0.3; 0 is off."),
  },
];

export const valueOf = (settings: Settings, key: Exclude<Field["key"], "length" | "seed">): number =>
  key === "temperature" || key === "top_k" || key === "top_p" ? settings[key] : amountOf(settings.processors, key);

export function withValue(settings: Settings, key: Exclude<Field["key"], "length" | "seed">, value: number): Settings {
  if (key === "temperature" || key === "top_k" || key === "top_p") return { ...settings, [key]: value };
  return withProcessors(settings, turned(settings.processors, key, value));
}

/** A state names no processors where there are none. */
export function withProcessors({ temperature, top_k, top_p }: Settings, processors: Settings["processors"]): Settings {
  const plain = { temperature, top_k, top_p };
  return processors === undefined || processors.length === 0 ? plain : { ...plain, processors };
}

export const usual = { settings: { temperature: 0.8, top_k: 50, top_p: 0.95 } satisfies Settings, length: 40 };

/** A seed a person can read aloud: at most four digits, drawn from a 64-bit random number. */
export const shortSeed = (random: string): string => (BigInt(random) % 10_000n).toString();
