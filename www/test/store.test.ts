import "fake-indexeddb/auto";
import { describe, expect, it } from "vitest";
import { Store } from "../src/store";
import type { RunTake } from "../src/takes";

const take = (id: string): RunTake => ({ kind: "run", id, story: "s", passage: "p", tokens: [] }) as unknown as RunTake;

describe("the store", () => {
  it("keeps a take and its frames in the order of steps", async () => {
    const store = await Store.open("frames");
    await store.saveSteps(take("a"), 0, [Uint8Array.of(0), Uint8Array.of(1)]);
    for (let step = 2; step < 12; step++) await store.saveSteps({ ...take("a"), tokens: [step] }, step, [Uint8Array.of(step)]);
    await store.saveSteps(take("b"), 0, [Uint8Array.of(99)]);
    expect((await store.frames("a")).map((frame) => frame[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect((await store.takesOf("s")).map(({ id }) => id)).toEqual(["a", "b"]);
  });

  it("lets go of a duplicate and nothing else", async () => {
    const store = await Store.open("duplicate");
    for (const id of ["a", "b"]) await store.saveSteps(take(id), 0, [Uint8Array.of(1)]);
    await store.dropRepeat("a");
    expect(await store.frames("a")).toEqual([]);
    expect(await store.frames("b")).toHaveLength(1);
    expect(await store.takesOf("s")).toHaveLength(1);
  });

  it("gives the stories, the last changed first", async () => {
    const store = await Store.open("stories");
    const story = { text: "", passages: [], settings: { temperature: 1, top_k: 0, top_p: 1 }, length: 1, seed: null, cursor: 0 };
    await store.saveStory({ ...story, id: "old", changed: 1 });
    await store.saveStory({ ...story, id: "new", changed: 2 });
    expect((await store.stories()).map(({ id }) => id)).toEqual(["new", "old"]);
  });
});
