// Made by `make forms` from the server's messages (server/src/messages.rs).
import type { GeneratorState, StoredSettings } from "@quillmate/sampler";

/** Whether the model is loaded, and what the server has done since its start. */
export interface Health {
  /** Whether the model is loaded. */
  status: HealthStatus;
  /** How much of the model file has been read. */
  loaded_bytes: number;
  /** The size of the model file. */
  total_bytes: number;
  /** Work since the server's start. */
  work: Work;
}

/** Whether the model is loaded. */
export type HealthStatus = "loading" | "ready";

/** Work since the server's start. `--drafts 0` turns speculation off; no text and no frame depends on it. */
export interface Work {
  /** Passes through the model that gave new tokens. */
  passes: number;
  /** Tokens emitted. */
  tokens: number;
  /** Tokens drafted from the text itself for those passes. */
  drafted: number;
  /** Drafted tokens that were accepted. */
  accepted: number;
}

/** The answer of every refusal. */
export interface ErrorAnswer {
  /** What was refused, and why. */
  error: Refused;
}

/** A refusal. The description of its code says which details it has. */
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
  /** Bytes the disk has for frames. */
  free?: number;
  /** Bytes the run may need. */
  needed?: number;
  /** The limit. */
  limit?: number;
  /** The character that has no token. */
  character?: string;
  /** The model the run belongs to. */
  run_model?: Model;
  /** The model the server has. */
  loaded_model?: Model;
  /** Why no run can be started. */
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

/** The model a run belongs to. Another file gives other logits, so a run resumes under this one only. */
export interface Model {
  /** A name for people. */
  name: string;
  /** SHA-256 of the model file, in hex. */
  sha256: string;
  /**
   * The implementation of the forward pass, by name and version. Another one gives logits with other low bits, and
   * eventually another token.
   */
  arithmetic: string;
  /** SHA-256 of the encoded token table, in hex. */
  tokenizer_sha256: string;
  /** How many tokens the vocabulary has; ids are below it. */
  vocab: number;
}

/** A reason why no run can be started. */
export interface Problem {
  /** Stable, for programs. */
  code: ProblemCode;
  /** For people. */
  message: string;
}

/** What prevents the server from starting a run. */
export type ProblemCode = "shutting_down" | "model_loading" | "store_full" | "disk_full" | "store_error";

/** A run can be started now. */
export interface Ready {
  /** Always true: a server that is not ready answers with 503. */
  ready: true;
}

/** The loaded model, and the server's limits. */
export interface ModelInfo {
  /** A name for people. */
  name: string;
  /** SHA-256 of the model file, in hex. */
  sha256: string;
  /**
   * The implementation of the forward pass, by name and version. Another one gives logits with other low bits, and
   * eventually another token.
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
  /** The server's limits. */
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
  /** Bytes of frames on disk. Running runs count with the most they can need. */
  frame_bytes: number;
}

/** A text to be tokenized. */
export interface Tokenize {
  /** The text. Special tokens in it are not recognized. */
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
  /** The text to continue. Special tokens in it are not recognized. */
  prompt: string;
  /** Unsigned 64-bit integer in decimal. */
  seed: string;
  /** What chooses each token. */
  settings: StoredSettings;
  /** How many tokens to emit, at most `run_tokens`. */
  length: number;
  /** The constraint on the text. */
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
  /** The constraint on the tokens after the prompt. */
  constraint?: Constraint;
}

/** A run. The server continues it whether or not a client watches, and after a restart. */
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
   * The text of these tokens, up to the last complete character. In a finished run an incomplete character at the end
   * is U+FFFD. `null`: the tokenizer is not stored.
   */
  text: string | null;
  /** The model it belongs to. */
  model: Model;
  /** The constraint on its text. */
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
