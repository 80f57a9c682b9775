// The things that travel between page, server and file, each with the check that lets it in.
import type { Environment, GeneratorState, RecordFile, Verdict } from "@quillmate/sampler";
import type * as api from "./api.types";
import type { End, Limits } from "./api.types";
import { count, type Json, list, number, object, oneOf, orNull, seed, text, UnexpectedShape } from "./check";
import { readProcessors } from "./processors";

export type Settings = GeneratorState["settings"];
export type { GeneratorState, Verdict };

export type { End, Limits };

/** What the server says of a model, as this page keeps it: where nobody recorded what computes with the file, that is null. */
type Kept<T extends { arithmetic: string }> = Omit<T, "arithmetic"> & { arithmetic: string | null };

// Of each answer, what the page reads.
export type Model = Kept<api.Model>;
export type ModelInfo = Kept<api.ModelInfo>;
export type Health = Omit<api.Health, "work">;
export type Run = Omit<api.Run, "model" | "text" | "constraint"> & { model: Model };

const tokens = list(count);

export function settings(value: unknown, what = "settings"): Settings {
  const it = object(value, what);
  return {
    temperature: number(it["temperature"], `${what}.temperature`),
    top_k: count(it["top_k"], `${what}.top_k`),
    top_p: number(it["top_p"], `${what}.top_p`),
    ...(it["processors"] === undefined ? {} : { processors: readProcessors(it["processors"], `${what}.processors`) }),
  };
}

export function state(value: unknown, what = "state"): GeneratorState {
  const it = object(value, what);
  if (it["contract"] !== "quillmate-v1" || it["format"] !== 1)
    throw new UnexpectedShape(`${what} to be of contract quillmate-v1, format 1`);
  return {
    contract: "quillmate-v1",
    format: 1,
    seed: seed(it["seed"], `${what}.seed`),
    step: count(it["step"], `${what}.step`),
    prompt: tokens(it["prompt"], `${what}.prompt`),
    tokens: tokens(it["tokens"], `${what}.tokens`),
    settings: settings(it["settings"], `${what}.settings`),
  };
}

export function model(value: unknown, what = "model"): Model {
  const it = object(value, what);
  return {
    name: text(it["name"], `${what}.name`),
    sha256: text(it["sha256"], `${what}.sha256`),
    arithmetic: orNull(text)(it["arithmetic"], `${what}.arithmetic`),
    tokenizer_sha256: text(it["tokenizer_sha256"], `${what}.tokenizer_sha256`),
    vocab: count(it["vocab"], `${what}.vocab`),
  };
}

function limits(value: unknown, what: string): Limits {
  const it = object(value, what);
  // A limit may be any 64-bit integer, more than `count` lets in.
  const limit = (name: keyof Limits): number => number(it[name], `${what}.${name}`);
  return {
    body_bytes: limit("body_bytes"),
    prompt_tokens: limit("prompt_tokens"),
    run_tokens: limit("run_tokens"),
    constraint_bytes: limit("constraint_bytes"),
    runs: limit("runs"),
    streams: limit("streams"),
    frame_bytes: limit("frame_bytes"),
  };
}

export function modelInfo(value: unknown): ModelInfo {
  const it = object(value, "model");
  return {
    ...model(value),
    context: count(it["context"], "model.context"),
    end_tokens: tokens(it["end_tokens"], "model.end_tokens"),
    limits: limits(it["limits"], "model.limits"),
  };
}

export function health(value: unknown): Health {
  const it = object(value, "health");
  return {
    status: oneOf("loading", "ready")(it["status"], "status"),
    loaded_bytes: count(it["loaded_bytes"], "loaded_bytes"),
    total_bytes: count(it["total_bytes"], "total_bytes"),
  };
}

const runStatus = oneOf("running", "finished", "stopped", "failed");

export function run(value: unknown): Run {
  const it = object(value, "run");
  return {
    id: text(it["id"], "run.id"),
    status: runStatus(it["status"], "run.status"),
    reason: orNull(text)(it["reason"], "run.reason"),
    length: count(it["length"], "run.length"),
    start: state(it["start"], "run.start"),
    tokens: tokens(it["tokens"], "run.tokens"),
    model: model(it["model"], "run.model"),
  };
}

export function end(value: unknown): End {
  const it = object(value, "end");
  return {
    status: runStatus(it["status"], "end.status"),
    reason: orNull(text)(it["reason"], "end.reason"),
    step: count(it["step"], "end.step"),
  };
}

/** A record of form 3, or of forms 1 and 2, which said less: what they did not say is null. */
export function record(value: unknown): RecordFile {
  const it = object(value, "the record");
  if (it["record"] !== 1 && it["record"] !== 2 && it["record"] !== 3) throw new UnexpectedShape("a record of form 1, 2 or 3");
  const identity = it["record"] === 1 ? it : object(it["identity"], "identity");
  const stop = it["record"] === 1 ? it : object(it["stop"], "stop");
  return {
    record: 3,
    identity: {
      crate_version: orNull(text)(identity["crate_version"], "identity.crate_version"),
      target: orNull(text)(identity["target"], "identity.target"),
      model: model(identity["model"]),
      constraint: orNull(text)(identity["constraint"], "identity.constraint"),
      environment: environment(it["record"] === 3 ? object(identity["environment"], "identity.environment") : {}),
    },
    start: state(it["start"], "start"),
    tokens: tokens(it["tokens"], "tokens"),
    draws_used: orNull(count)(it["draws_used"], "draws_used"),
    frames: orNull(list(orNull(text)))(it["frames"], "frames"),
    decisions: null,
    stop: {
      max_tokens: orNull(count)(stop["max_tokens"], "stop.max_tokens"),
      end_tokens: orNull(tokens)(stop["end_tokens"], "stop.end_tokens"),
      reason: orNull(text)(stop["reason"], "stop.reason"),
    },
  };
}

/** Circumstances: what is not said is null. */
function environment(it: Json): Environment {
  const said = (name: keyof Environment): string | null => orNull(text)(it[name], `identity.environment.${name}`);
  return {
    build_features: said("build_features"),
    server: said("server"),
    cpu_features: said("cpu_features"),
    kernels: said("kernels"),
    threads: said("threads"),
    drafts: said("drafts"),
  };
}

export function verdict(value: unknown): Verdict {
  const it = object(value, "verdict");
  switch (it["verdict"]) {
    case "match":
      return { verdict: "match", steps: count(it["steps"], "verdict.steps") };
    case "refused":
      return { verdict: "refused", code: text(it["code"], "verdict.code"), message: text(it["message"], "verdict.message") };
    case "diverged":
      return {
        verdict: "diverged",
        step: count(it["step"], "verdict.step"),
        expected_token: orNull(count)(it["expected_token"], "verdict.expected_token"),
        claimed_token: orNull(count)(it["claimed_token"], "verdict.claimed_token"),
        message: text(it["message"], "verdict.message"),
        ...why(it),
      };
    default:
      throw new UnexpectedShape("a verdict");
  }
}

type Diverged = Extract<Verdict, { verdict: "diverged" }>;
type Why = Diverged extends infer D
  ? D extends { why: string }
    ? Omit<D, "verdict" | "step" | "expected_token" | "claimed_token" | "message">
    : never
  : never;

function why(it: Json): Why {
  const { expected, claimed } = it;
  switch (it["why"]) {
    case "token":
      return { why: "token" };
    case "logits":
      return { why: "logits", expected: text(expected, "verdict.expected"), claimed: text(claimed, "verdict.claimed") };
    case "settings":
      return { why: "settings", expected: settings(expected), claimed: settings(claimed) };
    case "prompt":
      return {
        why: "prompt",
        index: count(it["index"], "verdict.index"),
        expected: orNull(count)(expected, "verdict.expected"),
        claimed: orNull(count)(claimed, "verdict.claimed"),
      };
    case "draw":
      return { why: "draw", expected: drawOf(expected), claimed: drawOf(claimed) };
    default:
      throw new UnexpectedShape("a reason in the verdict");
  }
}

function drawOf(value: unknown): { seed: string; uniform: number } {
  const it = object(value, "draw");
  return { seed: seed(it["seed"], "draw.seed"), uniform: number(it["uniform"], "draw.uniform") };
}
