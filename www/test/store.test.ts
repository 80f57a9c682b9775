import "fake-indexeddb/auto";
import { type IDBPDatabase, openDB } from "idb";
import { describe, expect, it, vi } from "vitest";
import { FORM, Store, storageError, type Story } from "../src/store";
import type { RunTake } from "../src/takes";

const take = (id: string): RunTake => ({ kind: "run", id, story: "s", passage: "p", tokens: [] }) as unknown as RunTake;
const story: Story = {
  id: "s",
  text: "",
  passages: [],
  settings: { temperature: 1, top_k: 0, top_p: 1 },
  length: 1,
  seed: null,
  cursor: 0,
  changed: 1,
};

const form1 = (name: string): Promise<IDBPDatabase> =>
  openDB(name, 1, {
    upgrade(db) {
      db.createObjectStore("stories", { keyPath: "id" });
      db.createObjectStore("takes", { keyPath: "id" }).createIndex("story", "story");
      db.createObjectStore("frames");
      db.createObjectStore("models");
    },
  });

describe("the store", () => {
  it("keeps a take and its frames in the order of steps", async () => {
    const store = new Store("frames");
    await store.saveSteps(take("a"), 0, [Uint8Array.of(0), Uint8Array.of(1)]);
    for (let step = 2; step < 12; step++) await store.saveSteps({ ...take("a"), tokens: [step] }, step, [Uint8Array.of(step)]);
    await store.saveSteps(take("b"), 0, [Uint8Array.of(99)]);
    expect((await store.frames("a")).map((frame) => frame[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect((await store.takesOf("s")).map(({ id }) => id)).toEqual(["a", "b"]);
  });

  it("lets go of a duplicate and nothing else", async () => {
    const store = new Store("duplicate");
    for (const id of ["a", "b"]) await store.saveSteps(take(id), 0, [Uint8Array.of(1)]);
    await store.dropRepeat("a");
    expect(await store.frames("a")).toEqual([]);
    expect(await store.frames("b")).toHaveLength(1);
    expect(await store.takesOf("s")).toHaveLength(1);
  });

  it("gives the stories, the last changed first", async () => {
    const store = new Store("stories");
    await store.saveStory({ ...story, id: "old", changed: 1 });
    await store.saveStory({ ...story, id: "new", changed: 2 });
    expect((await store.stories()).map(({ id }) => id)).toEqual(["new", "old"]);
  });

  it("opens a database of form 1 and brings its verdicts to form 2", async () => {
    const old = await form1("form-1");
    const diverged = { verdict: "diverged", step: 4, expected_token: 1, claimed_token: 2, message: "m", why: "token" };
    await old.put("stories", story);
    await old.put("frames", Uint8Array.of(7), ["a", 0]);
    await old.put("takes", {
      ...take("a"),
      tokens: [1, 2, 3],
      verdict: { verdict: "match", steps: 3 },
      replay: { verdict: "match", steps: 2 },
      again: 3,
    });
    await old.put("takes", { ...take("b"), verdict: diverged, replay: null, again: null });
    await old.put("takes", { kind: "hand", id: "c", story: "s", passage: "p", number: 3, text: "mine" });
    old.close();

    const store = new Store("form-1");
    const [a, b, c] = await store.takesOf("s");
    expect(a).toMatchObject({
      tokens: [1, 2, 3],
      verdict: { verdict: { verdict: "match", steps: 3 }, tokens: 3, when: null },
      replay: { verdict: { verdict: "match", steps: 2 }, tokens: 2, when: null },
      again: { tokens: 3, when: null },
    });
    expect(b).toMatchObject({ verdict: { verdict: diverged, tokens: 4, when: null }, replay: null, again: null });
    expect(c).toEqual({ kind: "hand", id: "c", story: "s", passage: "p", number: 3, text: "mine" });
    expect(await store.story("s")).toEqual(story);
    expect(await store.frame("a", 0)).toEqual(Uint8Array.of(7));
  });

  it("leaves a database alone that it cannot bring to the newest form", async () => {
    (await openDB("strange", 1)).close();
    await expect(new Store("strange").story("s")).rejects.toMatchObject({ code: "storage_failed" });
    const still = await openDB("strange");
    expect(still.version).toBe(1);
    still.close();
  });

  it("opens again after the connection is gone", async () => {
    const store = new Store("gone");
    await store.saveStory(story);
    const close = vi.spyOn(IDBDatabase.prototype, "transaction").mockImplementationOnce(() => {
      throw new DOMException("The database connection is closing.", "InvalidStateError");
    });
    await store.saveStory({ ...story, text: "kept" });
    close.mockRestore();
    expect((await store.story("s"))?.text).toBe("kept");
  });

  it("says that a disk is full, whichever way the browser puts it", async () => {
    const store = new Store("full");
    await store.saveStory(story);
    const put = vi.spyOn(IDBObjectStore.prototype, "put").mockImplementation(function (this: IDBObjectStore) {
      const request = this.get("nothing");
      this.transaction.abort();
      Object.defineProperty(this.transaction, "error", { value: new DOMException("", "QuotaExceededError") });
      return request;
    });
    await expect(store.saveTake(take("a"))).rejects.toMatchObject({ code: "storage_full" });
    put.mockRestore();
    await store.saveTake(take("a"));
    // As Chromium puts it when the last block is taken; then it closes the connection, and what is begun meanwhile hangs.
    const noSpace = "Connection is closing because of: IO error: 000003.log: FILE_ERROR_NO_SPACE";
    expect(storageError(new DOMException(noSpace, "UnknownError")).code).toBe("storage_full");
    expect(storageError(new DOMException("Failed to write blobs (IOError)", "DataError")).code).toBe("storage_full");
    expect(storageError(new DOMException("x", "UnknownError")).code).toBe("storage_failed");
    expect(storageError(new DOMException("x", "SecurityError")).code).toBe("storage_denied");
  });

  it("does not wait for a transaction whose connection is gone", async () => {
    const store = new Store("hangs");
    await store.saveStory(story);
    // The put never answers.
    const put = vi
      .spyOn(IDBObjectStore.prototype, "put")
      .mockImplementationOnce(
        () => Object.assign(new EventTarget(), { readyState: "pending" }) as unknown as IDBRequest<IDBValidKey>,
      );
    const commit = vi.spyOn(IDBTransaction.prototype, "commit").mockImplementationOnce(() => {});
    const hang = vi.spyOn(IDBTransaction.prototype, "addEventListener").mockImplementation(() => {});
    const saving = store.saveStory({ ...story, text: "kept" });
    hang.mockRestore();
    store.close();
    await saving;
    expect((await store.story("s"))?.text).toBe("kept");
    put.mockRestore();
    commit.mockRestore();
  });

  it("lets a newer page have the database, and says so; an older one, that it waits", async () => {
    const told: string[] = [];
    const events = { blocked: () => told.push("blocked"), superseded: () => told.push("superseded") };
    const store = new Store("newer", events);
    await store.saveStory(story);
    const newer = await openDB("newer", FORM + 1);
    expect(told).toEqual(["superseded"]);
    await expect(store.saveStory(story)).rejects.toMatchObject({ code: "storage_newer" });
    newer.close();
    await expect(new Store("newer").story("s")).rejects.toMatchObject({ code: "storage_newer" });

    const older = await form1("held");
    const waiting = new Store("held", events);
    const read = waiting.story("s").catch(() => {});
    await vi.waitFor(() => expect(told).toEqual(["superseded", "blocked"]));
    older.close();
    await read;
  });
});
