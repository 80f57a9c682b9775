// What acts on the model's ratings before temperature, top-k and top-p: four that a writer can turn, and whatever other
// a state from elsewhere brings along, which is kept as it came.
import type { Processor } from "@quillmate/sampler";
import { list, number, object, oneOf, UnexpectedShape } from "./check";
import { newest } from "./newest";

export type { Processor };
export type Processors = readonly Processor[];
export type Knob = keyof typeof main;

const NAMES = Object.keys(newest) as readonly Processor["name"][];

/** The parameter that a knob turns. */
const main = { repetition_penalty: "penalty", dry: "multiplier", min_p: "p", xtc: "probability" } as const;

/** What a knob puts into the list, here at the amount that changes nothing. */
const usual: Record<Knob, Processor> = {
  repetition_penalty: { name: "repetition_penalty", version: 1, penalty: 1, window: 256 },
  dry: { name: "dry", version: 2, multiplier: 0, base: 1.75, allowed_length: 2, window: 1024 },
  min_p: { name: "min_p", version: 1, p: 0 },
  xtc: { name: "xtc", version: 1, probability: 0, threshold: 0.1 },
};

const labels: Record<Knob, string> = {
  repetition_penalty: "repetition",
  dry: "avoid loops",
  min_p: "min-p",
  xtc: "surprise",
};

const isKnob = (name: string): name is Knob => Object.hasOwn(main, name);
const parameter = (processor: Processor, name: string): unknown => (processor as unknown as Record<string, unknown>)[name];
const rank = ({ name }: Processor): number => NAMES.indexOf(name);

export const offAt = (knob: Knob): number => Number(parameter(usual[knob], main[knob]));

export function amountOf(processors: Processors | undefined, knob: Knob): number {
  const found = processors?.find(({ name }) => name === knob);
  return found === undefined ? offAt(knob) : Number(parameter(found, main[knob]));
}

/**
 * The list with one knob turned, which then is of the newest version. All others stay as they are and where they are; an
 * empty list is no list.
 */
export function turned(processors: Processors | undefined, knob: Knob, amount: number): Processor[] | undefined {
  const given = processors ?? [];
  const found = given.find(({ name }) => name === knob);
  const next = { ...(found ?? usual[knob]), version: newest[knob], [main[knob]]: amount } as Processor;
  const at = given.findIndex((one) => rank(one) > rank(next));
  const result =
    amount === offAt(knob)
      ? given.filter(({ name }) => name !== knob)
      : found === undefined
        ? given.toSpliced(at === -1 ? given.length : at, 0, next)
        : given.map((one) => (one === found ? next : one));
  return result.length === 0 ? undefined : [...result];
}

/** Those that no knob turns. */
export const others = (processors: Processors | undefined): Processor[] => (processors ?? []).filter(({ name }) => !isKnob(name));

/** “repetition 1.1”, “typical (p 0.9)”: what a knob has set by itself is not said, nor the newest version of a rule. */
export function sayProcessor(processor: Processor): string {
  const { name } = processor;
  const mine = isKnob(name) ? name : null;
  const rest = Object.entries(processor)
    .filter(([key, value]) => key !== "name" && (mine === null || key !== main[mine]) && value !== undefined)
    .filter(([key, value]) => key !== "version" || value !== newest[name])
    .filter(([key, value]) => mine === null || parameter(usual[mine], key) !== value)
    .map(([key, value]) => (Array.isArray(value) ? `${key}: ${value.length}` : `${key.replaceAll("_", " ")} ${String(value)}`));
  const head = mine === null ? name.replaceAll("_", "-") : `${labels[mine]} ${String(parameter(processor, main[mine]))}`;
  return rest.length === 0 ? head : `${head} (${rest.join(", ")})`;
}

export const sameProcessors = (a: Processors | undefined, b: Processors | undefined): boolean => canonical(a) === canonical(b);

const canonical = (processors: Processors = []): string =>
  JSON.stringify(processors.map((one) => Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1))));

/** A list from outside. Shapes are checked here; ranges, and which parameter belongs where, by the sampler itself. */
export function readProcessors(value: unknown, what: string): Processor[] {
  const found = list(readProcessor)(value, what);
  if (new Set(found.map(({ name }) => name)).size < found.length) throw new UnexpectedShape(`each name once in ${what}`);
  return found;
}

function readProcessor(value: unknown, what: string): Processor {
  const it = object(value, what);
  const name = oneOf(...NAMES)(it["name"], `${what}.name`);
  const version = it["version"];
  if (version !== 1 && version !== newest[name]) throw new UnexpectedShape(`${what} to be of a known version`);
  const rest = Object.entries(it).filter(([key]) => key !== "name");
  return { name, ...Object.fromEntries(rest.map(([key, one]) => [key, readParameter(one, `${what}.${key}`)])) } as Processor;
}

const readParameter = (value: unknown, what: string): unknown =>
  typeof value === "boolean" ? value : Array.isArray(value) ? list(readList)(value, what) : number(value, what);
const readList = (value: unknown, what: string): unknown =>
  Array.isArray(value) ? list(number)(value, what) : number(value, what);
