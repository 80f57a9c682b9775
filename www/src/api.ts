// The server, call by call (server/API.md). Every answer is checked before it is believed.
import { count, list, object } from "./check";
import { ApiError, apiError } from "./errors";
import { type Message, messages } from "./stream";
import * as wire from "./wire";

/** Silence this long means the connection is gone, although nobody said so: the server sends a sign of life more often. */
const SILENCE_MS = 15_000;

async function call(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("unreachable", "The server cannot be reached.");
  }
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch(() => null);
  // A proxy that finds nobody behind it answers for the server.
  if (body === null && [502, 503, 504].includes(answer.status))
    throw new ApiError("unreachable", "The server cannot be reached.");
  throw apiError(object(body ?? {}, "error"));
}

async function json(path: string, init?: RequestInit): Promise<unknown> {
  const answer = await call(path, init);
  return answer.json().catch(() => {
    throw new ApiError("unexpected_answer", "The answer is not JSON.");
  });
}

const post = (path: string, body?: unknown): Promise<unknown> =>
  json(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) });

const at = (run: string): string => `/api/runs/${encodeURIComponent(run)}`;

export const health = async (): Promise<wire.Health> => wire.health(await json("/api/health", { cache: "no-store" }));
export const model = async (): Promise<wire.ModelInfo> => wire.modelInfo(await json("/api/model"));
export const tokenTable = async (): Promise<ArrayBuffer> => (await call("/api/model/tokens")).arrayBuffer();
export const tokenize = async (text: string): Promise<number[]> =>
  list(count)(object(await post("/api/tokenize", { text }), "answer")["tokens"], "tokens");

/** From a text, or from any generator's state. */
export type Ask =
  { prompt: string; seed: string; settings: wire.Settings; length: number } | { start: wire.GeneratorState; length: number };

export const createRun = async (ask: Ask): Promise<wire.Run> => wire.run(await post("/api/runs", ask));
export const stopRun = async (run: string): Promise<wire.Run> => wire.run(await post(`${at(run)}/stop`));
export const verifyRun = async (run: string, claim: unknown): Promise<wire.Verdict> =>
  wire.verdict(await post(`${at(run)}/verify`, claim));

/** The server's record of a run, for the package to look at. */
export const runRecord = (run: string): Promise<unknown> => json(`${at(run)}/record`, { cache: "no-store" });

/** The run's frames from step `from` on, as they are stored, to the end. */
export async function* streamRun(run: string, from: number, signal: AbortSignal): AsyncGenerator<Message> {
  const silence = new AbortController();
  const either = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const answer = await call(`${at(run)}/stream?from=${from}`, { signal: either });
    if (answer.body === null) throw new ApiError("unexpected_answer", "The stream has no body.");
    for await (const message of messages(answer.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      yield message;
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
    throw new ApiError("connection_lost", error instanceof Error ? error.message : String(error));
  } finally {
    clearTimeout(timer);
  }
}
