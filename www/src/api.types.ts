// Made by `make forms` from the server's messages (server/src/messages.rs).
import type { GeneratorState, StoredSettings } from "@quillmate/sampler";

/** How far the server is, and what it has done since its start. */
export interface Health {
  /** Whether the model is there. */
  status: HealthStatus;
  /** How much of the model file has been read. */
  loaded_bytes: number;
  /** The size of the model file. */
  total_bytes: number;
  /** What was done since the server's start. */
  work: Work;
}

/** Whether the model is there. */
export type HealthStatus = "loading" | "ready";

/**
 * What was done since the server's start. `--drafts 0` turns speculation off; no text and no frame depends on it.
 */
export interface Work {
  /** Passes through the model that gave new tokens. */
  passes: number;
  /** The tokens. */
  tokens: number;
  /** Tokens drafted from the story itself for those passes. */
  drafted: number;
  /** Drafts that were right. */
  accepted: number;
}

/** What every refusal answers with. */
export interface ErrorAnswer {
  /** What was refused, and why. */
  error: Refused;
}

/** A refusal. Which details it has is said with its code. */
export interface Refused {
  /** Stable, for programs. */
  code: ErrorCode;
  /** For people; it may change at any time. */
  message: string;
  /** The id that was given, shortened. */
  id?: string;
  /** Where, counted from 0. */
  index?: number;
  /** The number at fault. `null`: JSON has no such number, and the message names it. */
  value?: number | null;
  /** Bytes that frames take. */
  used?: number;
  /** Bytes of frames the disk has room for. */
  free?: number;
  /** Bytes the run may need. */
  needed?: number;
  /** How much there may be. */
  limit?: number;
  /** The character that has no token. */
  character?: string;
  /** The model the run belongs to. */
  run_model?: Model;
  /** The model the server has. */
  loaded_model?: Model;
  /** Why no run can be begun. */
  problems?: Problem[];
}

/** Stable. A later release may add codes. */
export type ErrorCode =
  | "json_syntax"
  | "json_too_deep"
  | "field_missing"
  | "field_unknown"
  | "field_repeated"
  | "body_incomplete"
  | "prompt_empty"
  | "prompt_too_long"
  | "context_too_long"
  | "length_out_of_range"
  | "text_not_encodable"
  | "token_out_of_range"
  | "from_out_of_range"
  | "constraint_too_long"
  | "constraint_ambiguous"
  | "constraint_invalid"
  | "token_missing"
  | "token_wrong"
  | "host_refused"
  | "origin_refused"
  | "not_found"
  | "run_not_found"
  | "tokenizer_not_found"
  | "method_not_allowed"
  | "body_timeout"
  | "run_finished"
  | "run_running"
  | "model_mismatch"
  | "constraint_mismatch"
  | "store_altered"
  | "body_too_large"
  | "body_not_json"
  | "too_many_runs"
  | "too_many_streams"
  | "internal"
  | "not_ready"
  | "model_loading"
  | "shutting_down"
  | "tokenizer_busy"
  | "constraints_busy"
  | "too_many_connections"
  | "store_full"
  | "disk_full"
  | "field_type"
  | "temperature_out_of_range"
  | "top_k_out_of_range"
  | "top_p_out_of_range"
  | "seed_not_string"
  | "seed_malformed"
  | "processor_unknown"
  | "processor_version_unknown"
  | "processor_parameter"
  | "processor_empty"
  | "processor_token_repeated"
  | "processor_repeated"
  | "processor_token"
  | "contract_unknown"
  | "format_unknown"
  | "step_mismatch"
  | "constraint_dead_end"
  | "constraint_violated"
  | "constraint_vocabulary"
  | "constraint_empty"
  | "constraint_too_complex"
  | "constraint_failed";

/** Which model a run belongs to. Logits of another file are other numbers, so a run goes on under this one only. */
export interface Model {
  /** A name for people. */
  name: string;
  /** SHA-256 of the model file, in hex. */
  sha256: string;
  /**
   * What computes with it, by name and version. Another implementation gives other low bits from the same file, and one
   * day another token.
   */
  arithmetic: string;
  /** SHA-256 of the encoded token table, in hex. */
  tokenizer_sha256: string;
  /** How many tokens the vocabulary has; ids are below it. */
  vocab: number;
}

/** One reason why no run can be begun. */
export interface Problem {
  /** Stable, for programs. */
  code: ProblemCode;
  /** For people. */
  message: string;
}

/** What keeps a server from beginning a run. */
export type ProblemCode = "shutting_down" | "model_loading" | "store_full" | "disk_full" | "store_error";

/** A run could be begun now. */
export interface Ready {
  /** Always true: a server that is not ready answers with 503. */
  ready: true;
}

/** The loaded model, and how much the server takes of each thing. */
export interface ModelInfo {
  /** A name for people. */
  name: string;
  /** SHA-256 of the model file, in hex. */
  sha256: string;
  /**
   * What computes with it, by name and version. Another implementation gives other low bits from the same file, and one
   * day another token.
   */
  arithmetic: string;
  /** SHA-256 of the encoded token table, in hex. */
  tokenizer_sha256: string;
  /** How many tokens the vocabulary has; ids are below it. */
  vocab: number;
  /** The most tokens of prompt and run together. */
  context: number;
  /** The tokens after which a text is over. */
  end_tokens: number[];
  /** How much the server takes of each thing. */
  limits: Limits;
}

/** The limits of one server; each is a flag. */
export interface Limits {
  /** Bytes of a request's body. */
  body_bytes: number;
  /** Tokens of a prompt. */
  prompt_tokens: number;
  /** Tokens one run may emit. */
  run_tokens: number;
  /** Bytes of a constraint, at most 65536: a longer one could outgrow the stack it is read on. */
  constraint_bytes: number;
  /** Runs being written at once. */
  runs: number;
  /** Streams being watched at once. */
  streams: number;
  /** Bytes of frames kept on disk, running runs counted with the most they can need. */
  frame_bytes: number;
}

/** A text whose tokens are asked for. */
export interface Tokenize {
  /** The text. Special tokens are not looked for in it. */
  text: string;
}

/** The tokens of a text. */
export interface Tokens {
  /** Their ids. */
  tokens: number[];
}

/** A run to begin: from a text, a seed and settings, or from a generator's state. */
export type NewRun = RunFromText | RunFromState;

/** A run that begins with a text. */
export interface RunFromText {
  /** The text that is gone on with. Special tokens are not looked for in it. */
  prompt: string;
  /** Unsigned 64-bit integer in decimal. */
  seed: string;
  /** What chooses each token. */
  settings: StoredSettings;
  /** How many tokens to emit, at most `run_tokens`. */
  length: number;
  /** What the text must fit, where it must fit anything. */
  constraint?: Constraint;
}

/** What a text must fit. */
export type Constraint = { json_schema: Record<string, unknown> } | { lark: string } | { regex: string };

/** A run that begins with a state. */
export interface RunFromState {
  /** The state of any generator. */
  start: GeneratorState;
  /** How many tokens to emit, at most `run_tokens`. */
  length: number;
  /** What the tokens after the prompt must fit, where they must fit anything. */
  constraint?: Constraint;
}

/** A run. It is the server's: it goes on whether or not anybody watches, and after a restart. */
export interface Run {
  /** 32 hex digits. */
  id: string;
  /** What it is doing. */
  status: Status;
  /**
   * Why it is not running: `length`, `end_token`, `stopped`, or a code (see *Why a run failed*); `null` while it runs.
   */
  reason: string | null;
  /** How many tokens it is to emit after its start. */
  length: number;
  /** The generator's state before the first of them. */
  start: GeneratorState;
  /** What was emitted after the start. */
  tokens: number[];
  /**
   * The text of these tokens, as far as its characters are whole. Only in a finished run, half a character at the end
   * shows as U+FFFD. `null`: the tokenizer is not kept.
   */
  text: string | null;
  /** The model it belongs to. */
  model: Model;
  /** What its text must fit. */
  constraint: RunConstraint | null;
}

/** What a run is doing. */
export type Status = "running" | "finished" | "stopped" | "failed";

/** The constraint of a run, as a client sees it. */
export type RunConstraint = {
  /** What reads it, by name and version. */
  engine: string;
  /** SHA-256, in hex, of the constraint's compact JSON: `engine` first and without this. */
  sha256: string;
} & ({ json_schema: Record<string, unknown> } | { lark: string } | { regex: string });

/** The end of a stream. */
export interface End {
  /** What the run is doing. */
  status: Status;
  /** Why it is not running, as in a run. */
  reason: string | null;
  /** The step the next token would have. */
  step: number;
}
