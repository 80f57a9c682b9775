// Everything the page keeps, in IndexedDB: stories, takes, and the frame of every token. Nothing here is ever deleted
// but the duplicate that a regeneration leaves when it gave the same text again.
import { type DBSchema, type IDBPDatabase, type IDBPTransaction, openDB } from "idb";
import { ApiError } from "./errors";
import type { PassageRange } from "./passages";
import type { Checked, RunTake, Take } from "./takes";
import type { ModelInfo, Settings, Verdict } from "./wire";

export interface Story {
  id: string;
  text: string;
  passages: PassageRange[];
  settings: Settings;
  length: number;
  /** The seed the writer chose; null for a new one each time. */
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

type Database = IDBPDatabase<Schema>;
type Upgrade = IDBPTransaction<Schema, ("stories" | "takes" | "frames" | "models")[], "versionchange">;

/** The migrations in order: a database of any version is upgraded to the newest. */
const FORMS: readonly ((db: Database, tr: Upgrade) => Promise<void>)[] = [
  // 1
  async (db) => {
    db.createObjectStore("stories", { keyPath: "id" });
    db.createObjectStore("takes", { keyPath: "id" }).createIndex("story", "story");
    db.createObjectStore("frames");
    db.createObjectStore("models");
    return Promise.resolve();
  },
  // 2: a verdict says of how many tokens it is, and of when
  async (_, tr) => {
    for (let at = await tr.objectStore("takes").openCursor(); at !== null; at = await at.continue()) {
      const take = at.value;
      if (take.kind === "run") await at.update(ofForm2(take));
    }
  },
];
export const FORM = FORMS.length;

/** A take in form 1. */
type RunTake1 = Omit<RunTake, "verdict" | "replay" | "again"> & {
  verdict: Verdict | null;
  replay: Verdict | null;
  again: number | null;
};

function ofForm2(kept: RunTake): RunTake {
  const { verdict, replay, again, ...take } = kept as unknown as RunTake1;
  return {
    ...take,
    verdict: checked(verdict),
    replay: checked(replay),
    again: again === null ? null : { tokens: again, when: null },
  };
}

/** Of a verdict that found no match nobody knows any more how many tokens it was about: at least those it names. */
const checked = (verdict: Verdict | null): Checked | null =>
  verdict === null
    ? null
    : {
        verdict,
        tokens: verdict.verdict === "match" ? verdict.steps : verdict.verdict === "diverged" ? verdict.step : 0,
        when: null,
      };

export interface StoreEvents {
  /** Another tab holds an older form open, and this page waits for it. */
  blocked: () => void;
  /** A page with a newer form wants to open it: this one has let go, and must be reloaded. */
  superseded: () => void;
}

/** A transaction without an event for this long, in milliseconds, is given up. */
const SILENCE_MS = 30_000;

export class Store {
  #ready: Database | null = null;
  #opening: Promise<Database> | null = null;
  #superseded = false;
  /** Ends what is waited for when the connection is gone: a transaction begun as it closes hears nothing any more. */
  readonly #waiting = new Set<(error: unknown) => void>();
  /** The disk was full and nothing has been written since. A browser reports this only once. */
  #full = false;
  /** Saves in progress. */
  readonly #commits = new Set<() => void>();

  constructor(
    private readonly name = "quillmate",
    private readonly events: StoreEvents = { blocked: () => {}, superseded: () => {} },
  ) {
    // Ask the browser not to evict this when its disk is full; it may refuse.
    void globalThis.navigator?.storage?.persist?.();
  }

  #open(): Promise<Database> {
    if (this.#superseded) throw new ApiError("storage_newer", "A newer page has this database open.");
    this.#opening ??= openDB<Schema>(this.name, FORM, {
      async upgrade(db, from, _to, tr) {
        try {
          for (const form of FORMS.slice(from)) await form(db, tr);
        } catch {
          // A failed migration leaves the database unchanged, and opening it fails.
          tr.abort();
          await tr.done.catch(() => {});
        }
      },
      blocked: () => this.events.blocked(),
      blocking: () => {
        this.#superseded = true;
        this.close();
        this.events.superseded();
      },
      // The browser has closed it, for want of room or because its files are gone. The next use opens it anew.
      terminated: () => this.close(),
    }).then(
      (db) => (this.#ready = db),
      (error: unknown) => {
        this.#opening = null;
        throw error;
      },
    );
    return this.#opening;
  }

  close(): void {
    this.#ready?.close();
    this.#ready = null;
    this.#opening = null;
    const gone = new DOMException("The connection is gone.", "InvalidStateError");
    for (const end of this.#waiting) end(gone);
    this.#waiting.clear();
  }

  #answer<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new DOMException("The store does not answer.", "TimeoutError")), SILENCE_MS);
      this.#waiting.add(reject);
      void work.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        this.#waiting.delete(reject);
      });
    });
  }

  /** With the connection there is, or else a new one: one that broke is not used again. */
  async #use<T>(work: (db: Database) => Promise<T>): Promise<T> {
    for (let again = false; ; again = true) {
      try {
        const db = this.#ready ?? (await this.#open());
        return await this.#answer(work(db));
      } catch (error) {
        if (error instanceof ApiError) throw error;
        const named = storageError(error);
        if (named.code === "storage_full") this.#full = true;
        if (again || named.code !== "storage_failed") throw this.#full ? new ApiError("storage_full", named.message) : named;
        this.close();
      }
    }
  }

  /** A transaction that writes: there is room again once it is done. */
  async #write(work: (db: Database) => Promise<void>): Promise<void> {
    await this.#use(work);
    this.#full = false;
  }

  story = (id: string): Promise<Story | undefined> => this.#use((db) => db.get("stories", id));
  stories = async (): Promise<Story[]> =>
    (await this.#use((db) => db.getAll("stories"))).toSorted((a, b) => b.changed - a.changed);
  takesOf = (story: string): Promise<Take[]> => this.#use((db) => db.getAllFromIndex("takes", "story", story));

  /**
   * `atOnce` commits without waiting for an answer, this save and those under way before it: a page that is being closed
   * gets none. Elsewhere that would cost the reason where it fails.
   */
  saveStory = (story: Story, atOnce = false): Promise<void> =>
    this.#write((db) => {
      const all = db.transaction("stories", "readwrite");
      return this.#hurried(all, all.store.put(story), atOnce);
    });
  /** The same for a take. */
  saveTake = (take: Take, atOnce = false): Promise<void> =>
    this.#write((db) => {
      const all = db.transaction("takes", "readwrite");
      return this.#hurried(all, all.store.put(take), atOnce);
    });

  #hurried(all: { commit: () => void; done: Promise<void> }, put: Promise<unknown>, atOnce: boolean): Promise<void> {
    const commit = (): void => {
      try {
        all.commit();
      } catch {
        // It has already ended.
      }
    };
    this.#commits.add(commit);
    if (atOnce) for (const one of this.#commits) one();
    return whole(all.done, [put]).finally(() => this.#commits.delete(commit));
  }

  /** Saves a take and its frames so far in one transaction. */
  saveSteps(take: RunTake, first: number, frames: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    return this.#write((db) => {
      const all = db.transaction(["takes", "frames"], "readwrite");
      const puts = frames.map((frame, i) => all.objectStore("frames").put(frame, [take.id, first + i]));
      return whole(all.done, [all.objectStore("takes").put(take), ...puts]);
    });
  }

  frames = (take: string): Promise<Uint8Array<ArrayBuffer>[]> => this.#use((db) => db.getAll("frames", framesOf(take)));

  frame = (take: string, index: number): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    this.#use((db) => db.get("frames", [take, index]));

  dropRepeat(take: string): Promise<void> {
    return this.#write((db) => {
      const all = db.transaction(["takes", "frames"], "readwrite");
      return whole(all.done, [all.objectStore("takes").delete(take), all.objectStore("frames").delete(framesOf(take))]);
    });
  }

  /** What is known of a model, so that a page without a server can still show text. `latest` is the one last seen. */
  model = (tokenizer = "latest"): Promise<Schema["models"]["value"] | undefined> =>
    this.#use((db) => db.get("models", tokenizer));
  saveModel(known: Schema["models"]["value"]): Promise<void> {
    return this.#write((db) => {
      const all = db.transaction("models", "readwrite");
      return whole(all.done, [all.store.put(known, known.info.tokenizer_sha256), all.store.put(known, "latest")]);
    });
  }
}

const framesOf = (take: string): IDBKeyRange => IDBKeyRange.bound([take, 0], [take, Number.MAX_SAFE_INTEGER]);

/** Why a transaction failed is said by the transaction; its requests only say that it was aborted, and say so first. */
async function whole(done: Promise<void>, requests: readonly Promise<unknown>[]): Promise<void> {
  const said = Promise.allSettled(requests);
  try {
    await done;
  } catch (error) {
    const own = (await said).find((one) => one.status === "rejected" && nameOf(one.reason) !== "AbortError");
    throw nameOf(error) === "AbortError" && own?.status === "rejected" ? own.reason : error;
  }
}

const nameOf = (error: unknown): string => (error instanceof Error || error instanceof DOMException ? error.name : "");

/** Browsers name a full disk in more than one way: a quota that shrinks with it, or files that cannot be written. */
export function storageError(error: unknown): ApiError {
  const message = error instanceof Error || error instanceof DOMException ? error.message : String(error);
  const name = nameOf(error);
  if (name === "QuotaExceededError" || /NO_?SPACE|no space|IOError|disk|full/i.test(message))
    return new ApiError("storage_full", message || name);
  if (name === "VersionError") return new ApiError("storage_newer", message);
  if (name === "SecurityError" || name === "NotAllowedError") return new ApiError("storage_denied", message);
  return new ApiError("storage_failed", message === "" ? name : message);
}
