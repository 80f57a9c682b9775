// Everything the page keeps, in IndexedDB: stories, takes, and the frame of every token. Nothing here is ever deleted
// but the duplicate that a regeneration leaves when it gave the same text again.
import { type DBSchema, type IDBPDatabase, openDB } from "idb";
import { ApiError } from "./errors";
import type { PassageRange } from "./passages";
import type { RunTake, Take } from "./takes";
import type { ModelInfo, Settings } from "./wire";

export interface Story {
  id: string;
  text: string;
  passages: PassageRange[];
  settings: Settings;
  length: number;
  /** The seed the writer chose; null for a fresh one each time. */
  seed: string | null;
  cursor: number;
  changed: number;
}

interface Schema extends DBSchema {
  stories: { key: string; value: Story };
  takes: { key: string; value: Take; indexes: { story: string } };
  frames: { key: [string, number]; value: Uint8Array<ArrayBuffer> };
  models: { key: string; value: { info: ModelInfo; table: ArrayBuffer } };
}

export class Store {
  private constructor(private readonly db: IDBPDatabase<Schema>) {}

  static async open(name = "quillmate"): Promise<Store> {
    const db = await openDB<Schema>(name, 1, {
      upgrade(fresh) {
        fresh.createObjectStore("stories", { keyPath: "id" });
        fresh.createObjectStore("takes", { keyPath: "id" }).createIndex("story", "story");
        fresh.createObjectStore("frames");
        fresh.createObjectStore("models");
      },
    });
    // Ask the browser not to clear this when its disk runs full; it may say no.
    void globalThis.navigator?.storage?.persist?.();
    return new Store(db);
  }

  story = (id: string): Promise<Story | undefined> => this.db.get("stories", id);
  stories = async (): Promise<Story[]> => (await this.db.getAll("stories")).toSorted((a, b) => b.changed - a.changed);
  takesOf = (story: string): Promise<Take[]> => this.db.getAllFromIndex("takes", "story", story);

  /** Committed at once, without waiting for an answer: a page that is being closed gets none. */
  saveStory(story: Story): Promise<unknown> {
    const all = this.db.transaction("stories", "readwrite");
    const put = all.store.put(story);
    all.commit();
    return kept(Promise.all([put, all.done]));
  }
  saveTake = (take: Take): Promise<unknown> => kept(this.db.put("takes", take));

  /** A take and the frames it has so far, together or not at all. */
  async saveSteps(take: RunTake, first: number, frames: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    const all = this.db.transaction(["takes", "frames"], "readwrite");
    const puts = frames.map((frame, i) => all.objectStore("frames").put(frame, [take.id, first + i]));
    await kept(Promise.all([all.objectStore("takes").put(take), ...puts, all.done]));
  }

  frames = (take: string): Promise<Uint8Array<ArrayBuffer>[]> => this.db.getAll("frames", framesOf(take));

  frame = (take: string, index: number): Promise<Uint8Array<ArrayBuffer> | undefined> => this.db.get("frames", [take, index]);

  async dropRepeat(take: string): Promise<void> {
    const all = this.db.transaction(["takes", "frames"], "readwrite");
    await Promise.all([all.objectStore("takes").delete(take), all.objectStore("frames").delete(framesOf(take)), all.done]);
  }

  /** What is known of a model, so that a page without a server can still show text. `latest` is the one last seen. */
  model = (tokenizer = "latest"): Promise<Schema["models"]["value"] | undefined> => this.db.get("models", tokenizer);
  async saveModel(known: Schema["models"]["value"]): Promise<void> {
    const all = this.db.transaction("models", "readwrite");
    await kept(Promise.all([all.store.put(known, known.info.tokenizer_sha256), all.store.put(known, "latest"), all.done]));
  }
}

const framesOf = (take: string): IDBKeyRange => IDBKeyRange.bound([take, 0], [take, Number.MAX_SAFE_INTEGER]);

async function kept<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof DOMException && error.name === "QuotaExceededError") throw new ApiError("storage_full", error.message);
    throw error;
  }
}
