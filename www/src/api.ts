// The server, call by call (server/API.md). Every answer is checked before it is believed.
import type { NewRun, Tokenize } from "./api.types";
import { count, list, object } from "./check";
import { ApiError, apiError } from "./errors";
import { type Message, messages } from "./stream";
import { Access, browserStorage } from "./token";
import * as wire from "./wire";

/** Silence this long means the connection is gone, although nobody said so: the server sends a sign of life more often. */
const SILENCE_MS = 15_000;

/** No request waits for ever. How long one may take, in milliseconds: */
export const DEADLINES = {
  /** what the server answers at once, */
  soon: 10_000,
  /** what it may have to read or count first, */
  work: 60_000,
  /** and what it computes with the model. */
  compute: 300_000,
};

interface Call extends RequestInit {
  /** How long the whole answer may take. A stream has none: it counts its silence. */
  within: number | null;
}

const access = new Access<Call>(
  browserStorage(),
  (question) => globalThis.prompt(question),
  // The time in which somebody looks for a token does not count: each request has the whole of its own.
  (path, { within, ...init }) => fetch(path, { ...init, signal: limited(within, init.signal) }),
);

/**
 * Aborted when the time is over, or when `signal` is. A timer of our own, because nothing holds an `AbortSignal.timeout` that only
 * `AbortSignal.any` looks at: it may be collected before its time, and then the request never ends.
 */
function limited(within: number | null, signal: AbortSignal | null | undefined): AbortSignal | null {
  if (within === null) return signal ?? null;
  const controller = new AbortController();
  setTimeout(() => controller.abort(new DOMException("The deadline is over.", "TimeoutError")), within);
  if (signal?.aborted === true) controller.abort(signal.reason);
  signal?.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
  return controller.signal;
}

async function call(path: string, init: Call): Promise<Response> {
  let answer: Response;
  try {
    answer = await access.fetch(path, init);
  } catch (error) {
    throw ended(error, init.signal) ?? new ApiError("unreachable", "The server cannot be reached.");
  }
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch((error: unknown) => {
    const why = ended(error, init.signal);
    if (why !== null) throw why;
    return null;
  });
  // A proxy that finds nobody behind it answers for the server.
  if (body === null && [502, 503, 504].includes(answer.status))
    throw new ApiError("unreachable", "The server cannot be reached.");
  throw apiError(object(body ?? {}, "error"));
}

/** Why a request ended before its answer: the page gave it up, or its time was over; null for anything else. */
function ended(error: unknown, signal: AbortSignal | null | undefined): unknown {
  if (signal?.aborted === true) return error;
  return error instanceof DOMException && error.name === "TimeoutError"
    ? new ApiError("timed_out", "The server took too long to answer.")
    : null;
}

async function json(path: string, init: Call): Promise<unknown> {
  const answer = await call(path, init);
  return answer.json().catch((error: unknown) => {
    throw ended(error, init.signal) ?? new ApiError("unexpected_answer", "The answer is not JSON.");
  });
}

const post = (path: string, within: number, signal: AbortSignal | undefined, body: unknown = {}): Promise<unknown> =>
  json(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    within,
    ...(signal === undefined ? {} : { signal }),
  });

const at = (run: string): string => `/api/runs/${encodeURIComponent(run)}`;

export const health = async (): Promise<wire.Health> =>
  wire.health(await json("/api/health", { cache: "no-store", within: DEADLINES.soon }));
export const model = async (): Promise<wire.ModelInfo> => wire.modelInfo(await json("/api/model", { within: DEADLINES.soon }));
export async function tokenTable(): Promise<ArrayBuffer> {
  const answer = await call("/api/model/tokens", { within: DEADLINES.work });
  return answer.arrayBuffer().catch((error: unknown) => {
    throw ended(error, null) ?? new ApiError("unreachable", "The server cannot be reached.");
  });
}
export const tokenize = async (text: string, signal?: AbortSignal): Promise<number[]> =>
  list(count)(
    object(await post("/api/tokenize", DEADLINES.work, signal, { text } satisfies Tokenize), "answer")["tokens"],
    "tokens",
  );

export const createRun = async (ask: NewRun, signal?: AbortSignal): Promise<wire.Run> =>
  wire.run(await post("/api/runs", DEADLINES.work, signal, ask));
export const stopRun = async (run: string): Promise<wire.Run> =>
  wire.run(await post(`${at(run)}/stop`, DEADLINES.soon, undefined));
export const verifyRun = async (run: string, claim: unknown, signal?: AbortSignal): Promise<wire.Verdict> =>
  wire.verdict(await post(`${at(run)}/verify`, DEADLINES.compute, signal, claim));

/** The server's record of a run, for the package to look at. */
export const runRecord = (run: string, signal?: AbortSignal): Promise<unknown> =>
  json(`${at(run)}/record`, { cache: "no-store", within: DEADLINES.compute, ...(signal === undefined ? {} : { signal }) });

/** The run's frames from step `from` on, as they are stored, to the end. */
export async function* streamRun(run: string, from: number, signal: AbortSignal): AsyncGenerator<Message> {
  const silence = new AbortController();
  const either = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const answer = await call(`${at(run)}/stream?from=${from}`, { signal: either, within: null });
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
