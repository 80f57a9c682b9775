// Every request ends: with its answer, with its deadline, or when the writer ends it.
import { afterEach, describe, expect, it, vi } from "vitest";
import * as api from "../src/api";

const settings = { temperature: 1, top_k: 0, top_p: 1 };
const ask = { prompt: "a", seed: "1", settings, length: 1 };
const deadlines = { ...api.DEADLINES };

/** A server that takes the request and says nothing, or begins an answer and says no more. */
function silent(begins: boolean): void {
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const { signal } = init;
    if (signal === null || signal === undefined) return Promise.reject(new Error("A request without a signal."));
    const ended = new Promise<never>((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }),
    );
    if (!begins) return ended;
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode('{"a'));
        ended.catch((error: unknown) => stream.error(error));
      },
    });
    return Promise.resolve(new Response(body));
  });
}

afterEach(() => {
  Object.assign(api.DEADLINES, deadlines);
  vi.unstubAllGlobals();
});

const calls: Record<string, (signal?: AbortSignal) => Promise<unknown>> = {
  health: api.health,
  model: api.model,
  tokenTable: api.tokenTable,
  tokenize: (signal) => api.tokenize("a", signal),
  createRun: (signal) => api.createRun(ask, signal),
  stopRun: () => api.stopRun("r"),
  verifyRun: (signal) => api.verifyRun("r", {}, signal),
  runRecord: (signal) => api.runRecord("r", signal),
};

describe.each([
  ["never answers", false],
  ["begins an answer and never ends it", true],
])("where the server %s", (_, begins) => {
  it.each(Object.keys(calls))("%s is over at its deadline", async (name) => {
    Object.assign(api.DEADLINES, { soon: 20, work: 20, compute: 20 });
    silent(begins);
    await expect(calls[name]?.()).rejects.toMatchObject({ code: "timed_out" });
  });

  it.each(["tokenize", "createRun", "verifyRun", "runRecord"])("%s is over when the writer ends it", async (name) => {
    silent(begins);
    const abort = new AbortController();
    const call = calls[name]?.(abort.signal);
    abort.abort();
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
  });
});
