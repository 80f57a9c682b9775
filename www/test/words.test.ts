// What the page says, and what it lets in.
import { describe, expect, it } from "vitest";
import { isSeed } from "../src/check";
import { advice, ApiError } from "../src/errors";
import { sayPreview } from "../src/preview";
import { fileName, fromBase64, readRecord, toBase64, toRecord, toVector } from "../src/record";
import type { Agreement } from "../src/sampler.worker";
import { fields, shortSeed } from "../src/settings";
import {
  type Checked,
  claimOf,
  decidedBy,
  describeSettings,
  firstDifference,
  madeBy,
  type RunTake,
  runTake,
  shown,
  unknownEnvironment,
} from "../src/takes";
import { sayAgain, sayReplay, sayVerdict } from "../src/verdict";
import * as wire from "../src/wire";

const take = runTake({
  id: "t",
  story: "s",
  passage: "p",
  number: 1,
  text: "xyz",
  run: "r",
  model: { name: "m", sha256: "a", tokenizer_sha256: "b", vocab: 9, arithmetic: "x-1" },
  prompt: "w",
  length: 3,
  start: {
    contract: "quillmate-v1",
    format: 1,
    seed: "18446744073709551615",
    step: 0,
    prompt: [1],
    tokens: [],
    settings: { temperature: 0.1, top_k: 2, top_p: 1 },
  },
  tokens: [4, 5, 6],
  checksums: ["00000000", "11111111", "22222222"],
  status: "done",
  reason: "length",
});
const names = { name: (token: number | null) => `“${token}”` };
const name = (token: number): string => `“${token}”`;
const preview = (agree: number, parts: Agreement["parts"]): string =>
  sayPreview({ take: "t", seed: "1", settings: take.start.settings, answered: "1", result: { agree, of: 40, parts } }, name);
const refuse = (key: string, typed: string): boolean => fields.find((field) => field.key === key)?.refuse(typed) !== null;

const plain = { edited: false, elsewhere: false };
const checked = (verdict: wire.Verdict, tokens = 3): Checked => ({ verdict, tokens, when: Date.UTC(2026, 0, 2, 12) });
const matched = (tokens: number): Checked => checked({ verdict: "match", steps: tokens }, tokens);

describe("a take", () => {
  it("has no property for what is not known of how it was asked for", () => {
    const { whole, lead, branch, ...given } = { ...take, whole: undefined, lead: undefined, branch: undefined };
    expect(runTake({ ...given, whole, lead, branch })).toStrictEqual(take);
    const more = { whole: true, lead: [1], branch: "b" };
    expect(runTake({ ...given, ...more })).toStrictEqual({ ...take, ...more });
  });
});

describe("a verdict", () => {
  it("says of how many tokens it is, by whom, and when; what came later it does not cover", () => {
    const all = sayVerdict({ ...take, verdict: matched(3) }, names, plain);
    expect(all.tone).toBe("good");
    expect(all.long).toMatch(/^The server recomputed all 3 tokens on Jan \d, 2026, .* and found the same: they come from seed/);
    // Two tokens were looked at, then a third came.
    const server = sayVerdict({ ...take, verdict: matched(2) }, names, plain);
    expect(server).toMatchObject({ tone: "waiting", short: "verified up to token 2 of 3" });
    expect(server.long).toContain("the first 2 of 3 tokens");
    expect(server.long).toContain("The 1 token after them came later and was not looked at.");
    const here = sayReplay({ ...take, replay: matched(2) }, names, plain);
    expect(here).toMatchObject({ tone: "waiting", short: "replayed here up to token 2 of 3" });
    expect(sayAgain({ ...take, again: { tokens: 2, when: null } }, plain)).toBe("same text up to token 2 of 3");
  });

  it("of a take that was edited by hand, or whose beginning has changed, says which of them it is about", () => {
    const edited = sayVerdict({ ...take, verdict: matched(3) }, names, { edited: true, elsewhere: false });
    expect(edited).toMatchObject({ tone: "waiting", short: "verified, before your edits" });
    expect(edited.long).toContain("What you changed in it by hand is not part of it.");
    const moved = { edited: false, elsewhere: true };
    expect(sayVerdict({ ...take, verdict: matched(3) }, names, moved).long).toContain("answers the beginning as it was");
    expect(sayAgain({ ...take, again: { tokens: 3, when: 0 } }, moved)).toBe(
      "same text, 3 of 3 tokens, to the beginning as it was",
    );
  });

  it("is one word when all is well", () => {
    expect(sayVerdict(take, names, plain).short).toBe("not yet verified");
    expect(sayVerdict({ ...take, verdict: matched(3) }, names, plain).short).toBe("verified");
    expect(sayReplay({ ...take, replay: matched(3) }, names, plain)?.short).toBe("replayed here: 3 of 3 tokens equal");
    expect(sayAgain({ ...take, again: { tokens: 3, when: 0 } }, plain)).toBe("same text, 3 of 3 tokens");
  });

  it("names the token, who chose what, and why", () => {
    const verdict = wire.verdict({
      verdict: "diverged",
      step: 1,
      expected_token: 5,
      claimed_token: 7,
      message: "m",
      why: "token",
    });
    const said = sayVerdict({ ...take, verdict: checked(verdict) }, names, plain);
    expect(said.short).toBe("differs from token 2");
    expect(said.long).toContain("The browser chose “7” (7), the server chose “5” (5).");
    expect(said.long).toContain("the token itself was changed");
  });

  it.each([
    [{ why: "logits", expected: "aa", claimed: "bb" }, "other logits (frame bb here, aa there)"],
    [
      { why: "settings", expected: take.start.settings, claimed: { ...take.start.settings, top_k: 0 } },
      "T 0.1, top-k off, top-p off here",
    ],
    [{ why: "draw", expected: { seed: "1", uniform: 0.5 }, claimed: { seed: "2", uniform: 0.25 } }, "seed 2 here, 1 there"],
    [{ why: "prompt", index: 3, expected: 8, claimed: null }, "differs at its token 4"],
  ])("gives the reason %o", (why, words) => {
    const verdict = wire.verdict({ verdict: "diverged", step: 0, expected_token: 5, claimed_token: 5, message: "m", ...why });
    expect(sayVerdict({ ...take, verdict: checked(verdict) }, names, plain).long).toContain(words);
    expect(sayVerdict({ ...take, verdict: checked(verdict) }, names, plain).long).toContain("Both chose “5” (5).");
  });

  it("that is not one is refused", () => {
    for (const wrong of [
      null,
      [],
      { verdict: "fine" },
      { verdict: "match" },
      { verdict: "match", steps: -1 },
      { verdict: "diverged", step: 1, message: "", why: "moon" },
    ]) {
      expect(() => wire.verdict(wrong)).toThrow(expect.objectContaining({ code: "unexpected_answer" }));
    }
  });
});

describe("a preview", () => {
  it("counts what stays and names what comes", () => {
    expect(preview(12, { at: "token", was: 1, now: 2 })).toBe("12 of 40 tokens stay; token 13 would be “2” instead of “1”.");
    expect(preview(1, { at: "token", was: 1, now: 2 })).toContain("1 of 40 tokens stays;");
    expect(preview(0, { at: "token", was: 1, now: 2 })).toContain("Nothing stays; token 1");
    expect(preview(40, null)).toBe("All 40 tokens stay: this gives the same text.");
  });

  it("says plainly where the frames do not suffice", () => {
    expect(preview(0, { at: "frame", maxTopK: 50 })).toContain("only the 50 likeliest words were kept");
  });
});

const made = (crate_version: string) => ({ crate_version, target: "w" });

describe("a record", () => {
  const frames = [Uint8Array.of(1), Uint8Array.of(2, 255), new Uint8Array(70_000).fill(7)];

  it("goes to a file and comes back", () => {
    const { record, frames: back } = readRecord(JSON.stringify(toRecord(take, frames)));
    expect(record.start).toEqual(take.start);
    expect(back).toEqual(frames);
    expect(fileName(take)).toBe("quillmate-seed-18446744073709551615-3-tokens.json");
  });

  it("says what made it, and null where that is not known", () => {
    const record = toRecord({ ...take, made: made("0.1.0"), end_tokens: [0] }, frames);
    expect(record.identity).toEqual({
      ...made("0.1.0"),
      environment: unknownEnvironment,
      model: { name: "m", sha256: "a", arithmetic: "x-1", tokenizer_sha256: "b", vocab: 9 },
      constraint: null,
    });
    expect(record.stop).toEqual({ max_tokens: 3, end_tokens: [0], reason: "length" });
    expect(record.draws_used).toBe(3);
    expect(readRecord(JSON.stringify(record)).record).toEqual(record);
    // A take kept before any of it was recorded.
    const { arithmetic: _, ...model } = take.model;
    const old = toRecord({ ...take, model: model as typeof take.model }, frames);
    expect(old.identity).toMatchObject({ crate_version: null, target: null, model: { arithmetic: null } });
    expect(old.stop.end_tokens).toBeNull();
  });

  it("of form 2 has circumstances that are not known, and one of form 3 keeps its own", () => {
    const environment = { ...unknownEnvironment, threads: "4, then 2", kernels: "avx2" };
    const record = toRecord({ ...take, made: { ...made("0.1.0"), environment } }, frames);
    expect(record.identity.environment).toEqual(environment);
    expect(readRecord(JSON.stringify(record)).record).toEqual(record);
    const { environment: _, ...identity } = record.identity;
    const old = readRecord(JSON.stringify({ ...record, record: 2, identity })).record;
    expect(old).toEqual({ ...record, identity: { ...identity, environment: unknownEnvironment } });
  });

  it("of form 1 is brought to form 3", () => {
    const { arithmetic: _, ...model } = take.model;
    const old = { record: 1, model, start: take.start, tokens: take.tokens, frames: frames.map(toBase64), reason: "length" };
    const { record } = readRecord(JSON.stringify(old));
    expect(record.identity).toEqual({
      crate_version: null,
      target: null,
      model: { ...model, arithmetic: null },
      constraint: null,
      environment: unknownEnvironment,
    });
    expect(record.stop).toEqual({ max_tokens: null, end_tokens: null, reason: "length" });
  });

  it("names every release that went on with a take", () => {
    expect(madeBy({ ...take, tokens: [] }, made("2"))).toEqual(made("2"));
    expect(madeBy(take, made("2"))).toBeNull();
    expect(madeBy({ ...take, made: made("2") }, made("2"))).toEqual({ ...made("2"), environment: unknownEnvironment });
    const both = madeBy({ ...take, made: made("1") }, made("2"));
    expect(both).toEqual({ ...made("1, then 2"), environment: unknownEnvironment });
    const here = { ...made("2"), environment: { ...unknownEnvironment, build_features: "+simd128" } };
    expect(madeBy({ ...take, made: here }, here)).toEqual(here);
    expect(madeBy({ ...take, made: both }, made("2"))).toEqual(both);
  });

  it.each([
    "",
    "{}",
    "[]",
    '{"record":2}',
    '{"record":3}',
    '{"record":4}',
    JSON.stringify({ ...toRecord(take, frames), frames: [] }),
    JSON.stringify({ ...toRecord(take, frames), start: { ...take.start, seed: 41 } }),
  ])("is refused with a code where it is none: %s", (file) => {
    expect(() => readRecord(file)).toThrow(expect.objectContaining({ code: "not_a_record" }));
  });

  it("copies as a test vector", () => {
    const vector = JSON.parse(toVector(take, frames)) as { steps: { step: number; token: number; frame: string }[] };
    expect(vector.steps.map(({ step, token }) => [step, token])).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
    ]);
    expect(fromBase64(vector.steps[1]?.frame ?? "")).toEqual(frames[1]);
    expect(toBase64(Uint8Array.of(2, 255))).toBe("Av8=");
  });
});

describe("takes", () => {
  it("claim the state after their last token", () => {
    expect(claimOf(take)).toEqual({
      tokens: [4, 5, 6],
      state: { ...take.start, step: 3, tokens: [4, 5, 6] },
      frame_checksums: take.checksums,
    });
  });

  it("are shown by number, a regeneration only once it differs", () => {
    const takes = [
      { ...take, id: "b", number: 2 },
      take,
      { ...take, id: "c", number: 3, repeats: "t" },
      { ...take, id: "d", passage: "q" },
    ];
    expect(shown(takes, "p").map(({ id }) => id)).toEqual(["t", "b"]);
  });

  it("differ first where they differ first", () => {
    expect(firstDifference([1, 2, 3], [1, 9, 3])).toBe(1);
    expect(firstDifference([1, 2], [1, 2, 3])).toBe(2);
    expect(firstDifference([1, 2], [1, 2])).toBeNull();
  });

  it("that branch keep the decisions of the take they share words with", () => {
    const start = { ...take.start, prompt: [1] };
    const first = { ...take, id: "first", start };
    const branch = {
      ...take,
      id: "branch",
      start: { ...start, prompt: [1, 4, 9] },
      lead: [4, 9],
      branch: "first",
      tokens: [7, 8],
    };
    const again = {
      ...branch,
      id: "again",
      start: { ...start, prompt: [1, 4, 9, 7, 3] },
      lead: [4, 9, 7, 3],
      branch: "branch",
      tokens: [2],
    };
    const all = [first, branch, again];
    const where = (of: RunTake, takes = all): (string | null)[] =>
      [...Array(6).keys()].map((at) => {
        const found = decidedBy(of, at, takes);
        return found === null ? null : `${found.take.id}:${found.step}`;
      });
    expect(where(branch)).toEqual(["first:0", "first:1", "branch:0", "branch:1", null, null]);
    expect(where(again)).toEqual(["first:0", "first:1", "branch:0", "branch:1", "again:0", null]);
    // Kept before branches said where they come from: found by what they share.
    const { branch: _, ...old } = branch;
    expect(where(old, [first, old])).toEqual(["first:0", "first:1", "branch:0", "branch:1", null, null]);
    expect(where(old, [{ ...first, tokens: [5, 5] }, old])).toEqual([null, null, "branch:0", "branch:1", null, null]);
  });

  it("say their settings", () => {
    expect(describeSettings({ temperature: 0.8, top_k: 50, top_p: 0.95 })).toBe("T 0.8, top-k 50, top-p 0.95");
    expect(describeSettings({ temperature: 0, top_k: 50, top_p: 0.95 })).toBe("T 0, always the likeliest word");
  });
});

describe("typed settings", () => {
  it.each([
    ["temperature", ["0", "0.8", ".5", "12", "1e-3"], ["", "-1", "warm", "NaN", "Infinity", "1,5", "0x10"]],
    ["top_k", ["0", "50", "4294967295"], ["", "-1", "1.5", "4294967296"]],
    ["top_p", ["0", "1", "0.95"], ["1.01", "-0.1", ""]],
    ["seed", ["0", "18446744073709551615"], ["18446744073709551616", "-1", "1.5", "007", "1e3"]],
    ["length", ["1", "512"], ["0", "513", "2.5"]],
  ])("%s", (key, good, bad) => {
    expect(good.filter((typed) => refuse(key, typed))).toEqual([]);
    expect(bad.filter((typed) => !refuse(key, typed))).toEqual([]);
  });

  it("seeds are 64 bits, never rounded; fresh ones are short", () => {
    expect(isSeed("9007199254740993")).toBe(true);
    expect(shortSeed("18446744073709551615")).toBe("1615");
  });
});

describe("errors", () => {
  it("say what to do", () => {
    expect(advice(new ApiError("run_not_found", "x"))).toContain("Regenerate");
    expect(advice(new ApiError("something_new", "The moon is full."))).toContain("The moon is full.");
  });
});
