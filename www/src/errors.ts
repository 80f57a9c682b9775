// The error type of the page, and advice for each code.
import { type Json, object } from "./check";

export class ApiError extends Error {
  constructor(
    /** Stable; texts are not. */
    readonly code: string,
    message: string,
    readonly details: Json = {},
  ) {
    super(message);
  }
}

/** Reads `{"error": {"code", "message", …}}`. */
export function apiError(answer: Json): ApiError {
  try {
    const { code, message, ...details } = object(answer["error"], "error");
    return new ApiError(
      typeof code === "string" ? code : "unexpected_answer",
      typeof message === "string" ? message : "",
      details,
    );
  } catch {
    return new ApiError("unexpected_answer", "The server's answer is not one this page knows.");
  }
}

export function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "unknown";
}

const ADVICE: Record<string, string> = {
  unreachable: "The server cannot be reached. Your text and all takes are kept here; try again when it is back.",
  connection_lost: "The connection was lost. What has arrived is kept; press Resume to go on from there.",
  token_missing: "This server asks for a token. Reload the page to give it.",
  token_wrong: "The server refused the token. Reload the page to give another.",
  too_many_connections: "The server has too many connections open. Your text is kept; try again soon.",
  disk_full: "The server's disk is full. Whoever runs it has to make room; your text and takes are kept here.",
  store_altered: "Somebody altered this run in the server's store, so it does not go on. What this page kept of it is as it was.",
  shutting_down: "The server is being stopped. What has arrived is kept; the run goes on when the server is back.",
  stream_damaged: "Something was damaged on the way. What arrived before is kept; press Resume to fetch the rest again.",
  frame_damaged: "A frame was damaged on the way, and no token was taken from it. Press Resume to fetch it again.",
  frame_truncated: "A frame was cut short on the way, and no token was taken from it. Press Resume to fetch it again.",
  frame_step_mismatch: "A frame came out of turn, and no token was taken from it. Press Resume to fetch it again.",
  unexpected_answer:
    "The server answered in a way this page does not know. Reload the page; server and page may be of different versions.",
  model_loading: "The model is still loading. Press Generate again in a moment.",
  model_mismatch:
    "The server now runs another model, so this run cannot go on. Replay and preview still work; New take uses the new model.",
  run_not_found: "The server no longer has this run. The text and its frames are kept here; Regenerate asks for the run anew.",
  prompt_empty:
    "There is nothing before the cursor to go on from. Write a few words, or move the cursor to the end of your text.",
  prompt_too_long:
    "The text before the cursor is longer than the model can read. Generate from an earlier place, or begin a new story.",
  context_too_long: "The text before the cursor and the length together are more than the model can hold. Set a shorter length.",
  text_not_encodable: "There is a character before the cursor that the model has no token for. Take it out and try again.",
  body_too_large: "The text before the cursor is too long for the server. Begin a new story with its last pages.",
  too_many_runs: "The server is writing as many passages as it can. Try again in a moment.",
  too_many_streams: "The server is serving as many pages as it can. Try again in a moment.",
  store_full: "The server has no room for another run. Whoever runs it has to make some; your text and takes are kept here.",
  timed_out: "The server took too long to answer, so the page no longer waits. Your text is as it was; try again in a moment.",
  storage_full:
    "The disk is full, and what you write now is not saved. Copy your text, then free some space: the page goes on trying.",
  storage_failed: "The browser could not save what you write; often the disk is full. Copy your text; the page goes on trying.",
  storage_denied:
    "This browser does not let the page keep anything, and Quillmate writes nothing it cannot keep. Allow storage for this page, or leave private browsing, and reload.",
  storage_newer:
    "A newer version of this page has your stories open. Copy what you wrote here in the last moments, then reload this page.",
  processor_overflow:
    "With these settings a word's rating grows beyond any number. Set Repetition and Avoid loops lower, under More.",
  processor_all_banned: "These settings leave no word that may come. Loosen them under More, in the settings.",
  kept_damaged:
    "Something this browser keeps for this story cannot be read: takes that were changed, or made by a newer page. The text and all other takes are here; reload the page if it was updated.",
  not_a_record: "This file is not a Quillmate record. Choose a .json file that was saved with “Save record”.",
};

/** Said by the page itself, with all there is to say. */
const OWN = new Set(["seed_used", "setting_refused"]);

/** What to do, in plain words; by default the message itself. */
export function advice(error: unknown): string {
  const known = ADVICE[codeOf(error)];
  if (known !== undefined) return known;
  const message = error instanceof Error && error.message !== "" ? error.message : String(error);
  return OWN.has(codeOf(error)) ? message : `That did not work: ${message}`;
}
