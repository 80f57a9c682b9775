// Settings and processors: what a knob puts in, what stays as it came, what is said, and what is let in.
import { Generator, stateSchema } from "@quillmate/sampler";
import { describe, expect, it } from "vitest";
import { UnexpectedShape } from "../src/check";
import { amountOf, others, type Processor, readProcessors, sameProcessors, sayProcessor, turned } from "../src/processors";
import { knobs, valueOf, withProcessors, withValue } from "../src/settings";
import { describeSettings, sameSettings } from "../src/takes";
import * as wire from "../src/wire";

const plain = { temperature: 0.8, top_k: 50, top_p: 0.95 };
const minP: Processor = { name: "min_p", version: 1, p: 0.05 };
const typical: Processor = { name: "typical", version: 2, p: 0.9 };
const banned: Processor = { name: "bad_words", version: 1, words: [[3, 4], [5]] };
/** Throws where the sampler would. */
const accept = (settings: wire.Settings): void =>
  Generator.fromState(null, {
    contract: "quillmate-v1",
    format: 1,
    seed: "1",
    step: 0,
    prompt: [1],
    tokens: [],
    settings,
  }).free();

describe("a knob", () => {
  it("stands at off where there is no processor, and puts none there", () => {
    expect(knobs.map(({ key }) => [key, valueOf(plain, key)])).toEqual([
      ["repetition_penalty", 1],
      ["dry", 0],
      ["min_p", 0],
      ["xtc", 0],
    ]);
    for (const { key } of knobs) expect(withValue(plain, key, valueOf(plain, key))).toStrictEqual(plain);
  });

  it("puts its processor in, whole and in the usual order, however they are turned", () => {
    const all: Processor[] = [
      { name: "repetition_penalty", version: 1, penalty: 1.1, window: 256 },
      { name: "dry", version: 2, multiplier: 0.8, base: 1.75, allowed_length: 2, window: 1024 },
      minP,
      { name: "xtc", version: 1, probability: 0.5, threshold: 0.1 },
    ];
    const amounts = { repetition_penalty: 1.1, dry: 0.8, min_p: 0.05, xtc: 0.5 };
    const given = Object.entries(amounts) as [keyof typeof amounts, number][];
    for (const order of [given, given.toReversed()]) {
      const settings = order.reduce<wire.Settings>((now, [key, amount]) => withValue(now, key, amount), plain);
      expect(settings).toStrictEqual({ ...plain, processors: all });
      expect(() => accept(settings)).not.toThrow();
      expect(order.map(([key]) => amountOf(settings.processors, key))).toEqual(order.map(([, amount]) => amount));
      const off = order.reduce<wire.Settings>((now, [key]) => withValue(now, key, amountOf(undefined, key)), settings);
      expect(off).toStrictEqual(plain);
    }
  });

  it("leaves all others as they came and where they stood, and its own parameters too", () => {
    const mine: Processor = { name: "repetition_penalty", version: 1, penalty: 1.3, exempt: [2], prompt: false };
    const list = [typical, mine, banned];
    expect(turned(list, "repetition_penalty", 1.2)).toStrictEqual([typical, { ...mine, penalty: 1.2 }, banned]);
    expect(turned(list, "repetition_penalty", 1)).toStrictEqual([typical, banned]);
    expect(turned(list, "min_p", 0.05)).toStrictEqual([minP, typical, mine, banned]);
    expect(turned([banned, typical], "min_p", 0.05)).toStrictEqual([banned, minP, typical]);
    expect(list).toStrictEqual([typical, mine, banned]);
    expect(others(list)).toEqual([typical, banned]);
    expect(withProcessors({ ...plain, processors: list }, [])).toStrictEqual(plain);
  });

  it("makes an older version of its rule the newest when it is turned, and not before", () => {
    const old: Processor = { name: "dry", version: 1, multiplier: 0.8, base: 2, allowed_length: 3, breakers: [[7]] };
    expect(turned([old], "min_p", 0.05)).toStrictEqual([old, minP]);
    expect(turned([old], "dry", 0.5)).toStrictEqual([{ ...old, version: 2, multiplier: 0.5 }]);
  });

  it.each([
    ["repetition_penalty", ["1", "1.1", "0.9", "7"], ["0", "-1", "1e-400", "", "off"]],
    ["dry", ["0", "0.8", "9"], ["-0.1", "", "NaN"]],
    ["min_p", ["0", "0.05", "1"], ["1.01", "-1", ""]],
    ["xtc", ["0", "0.5", "1"], ["1.5", "-1", ""]],
  ])("takes for %s what the sampler takes", (key, good, bad) => {
    const knob = knobs.find((one) => one.key === key);
    if (knob === undefined) throw new Error(key);
    for (const typed of good) {
      expect(knob.refuse(typed)).toBeNull();
      expect(() => accept(withValue(plain, knob.key, Number(typed)))).not.toThrow();
    }
    for (const typed of bad) expect(knob.refuse(typed)).not.toBeNull();
  });
});

describe("processors", () => {
  it("are said shortly; what is not usual is said, and others by name", () => {
    expect(describeSettings({ ...plain, processors: [minP, typical] })).toBe(
      "T 0.8, top-k 50, top-p 0.95, min-p 0.05, typical (p 0.9)",
    );
    expect(describeSettings({ ...plain, temperature: 0, processors: [minP] })).toBe("T 0, always the likeliest word, min-p 0.05");
    expect(sayProcessor({ name: "repetition_penalty", version: 1, penalty: 1.1, window: 64, exempt: [1, 2] })).toBe(
      "repetition 1.1 (window 64, exempt: 2)",
    );
    expect(sayProcessor(banned)).toBe("bad-words (words: 2)");
    expect(sayProcessor({ name: "typical", version: 1, p: 0.9 })).toBe("typical (version 1, p 0.9)");
    const dry = { name: "dry", multiplier: 0.8, base: 1.75, allowed_length: 2, window: 1024 } as const;
    const said = ([1, 2] as const).map((version) => sayProcessor({ ...dry, version }));
    expect(said).toEqual(["avoid loops 0.8 (version 1)", "avoid loops 0.8"]);
  });

  it("tell settings apart, whatever order an answer names their parameters in", () => {
    const turnedRound = Object.fromEntries(Object.entries(minP).toReversed()) as unknown as Processor;
    expect(sameProcessors([minP], [turnedRound])).toBe(true);
    expect(sameProcessors(undefined, [])).toBe(true);
    expect(sameProcessors([minP, typical], [typical, minP])).toBe(false);
    expect(sameSettings(plain, { ...plain, processors: [minP] })).toBe(false);
    expect(sameSettings({ ...plain, processors: [minP] }, { ...plain, processors: [{ ...minP, p: 0.06 }] })).toBe(false);
  });

  it("come in through settings and states, untouched", () => {
    const settings = { ...plain, processors: [banned, typical, minP] };
    expect(wire.settings(JSON.parse(JSON.stringify(settings)))).toStrictEqual(settings);
    expect(wire.settings(plain)).toStrictEqual(plain);
    expect("processors" in wire.settings(plain)).toBe(false);
  });

  it("of every name and version the sampler knows come in, and no other", () => {
    const schema = JSON.parse(stateSchema()) as {
      $defs: {
        Processor: { oneOf: { properties: { name: { const: string }; version: { const: number } | { enum: number[] } } }[] };
      };
    };
    const known = schema.$defs.Processor.oneOf.map(({ properties: { name, version } }) => ({
      name: name.const,
      versions: "enum" in version ? version.enum : [version.const],
    }));
    expect(known).toHaveLength(21);
    for (const { name, versions } of known) {
      for (const version of versions) expect(readProcessors([{ name, version }], "p")).toHaveLength(1);
      for (const version of [0, versions.length + 1, "1", null]) {
        expect(() => readProcessors([{ name, version }], "p")).toThrow(UnexpectedShape);
      }
    }
  });

  it.each([
    ["a word", "min_p"],
    ["null", null],
    ["no object", [null]],
    ["no name", [{ version: 1 }]],
    ["another name", [{ name: "magic", version: 1 }]],
    ["a name of every object", [{ name: "toString", version: 1 }]],
    ["another version", [{ ...minP, version: 2 }]],
    ["a number that is none", [{ ...minP, p: "0.05" }]],
    ["infinity", [{ ...minP, p: Infinity }]],
    ["an object where numbers belong", [{ ...banned, words: [{}] }]],
    ["lists too deep", [{ ...banned, words: [[[1]]] }]],
    ["one twice", [minP, minP]],
  ])("are refused: %s", (_, wrong) => {
    expect(() => wire.settings({ ...plain, processors: wrong })).toThrow(expect.objectContaining({ code: "unexpected_answer" }));
  });
});
