// The settings a writer can turn, each with its range, one plain sentence, and what a typed value may be.
import { isSeed } from "./check";
import type { Settings } from "./wire";

export interface Field {
  key: keyof Settings | "length" | "seed";
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

export const usual = { settings: { temperature: 0.8, top_k: 50, top_p: 0.95 } satisfies Settings, length: 40 };

/** A seed a person can read aloud: at most four digits, drawn from a 64-bit random number. */
export const shortSeed = (random: string): string => (BigInt(random) % 10_000n).toString();
