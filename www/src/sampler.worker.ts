// The worker: every token is chosen here, from a frame, by the same code the server runs. No network, no storage, no text.
import init, { firstDivergence, Frame, Generator, randomSeed, release, verify } from "@quillmate/sampler/slim";
import wasm from "@quillmate/sampler/sampler_bg.wasm?url";
import type { Claim, Comparison, GeneratorState, RecordFile, RunSettings, Trace, Verdict } from "@quillmate/sampler";
import type { Settings } from "./wire";

export type Bytes = Uint8Array<ArrayBuffer>;

export interface Step {
  token: number;
  checksum: string;
}

/** How many tokens of a take stay the same with another seed or other settings, from its stored frames. */
export interface Agreement {
  /** How many tokens from the start are equal. */
  agree: number;
  of: number;
  parts: null | { at: "token"; was: number; now: number } | { at: "frame"; maxTopK: number | null };
}

/** Why a step gave its token. */
export interface Reason {
  trace: Trace;
  /** How many words the model rated, and how many of these ratings are kept; null for all. */
  vocab: number;
  kept: number | null;
}

export interface Carried {
  frames: Bytes[];
  checksums: string[];
}

// A separate file, compiled while it arrives.
const loaded = init({ module_or_path: wasm });
const running = new Map<string, Generator>();
/** The frames of the take last previewed, decoded once while a slider moves. */
let preview: { take: string; frames: Frame[] } | null = null;

const packageSettings = ({ temperature, top_k: topK, top_p: topP, processors }: Settings): RunSettings => ({
  temperature,
  topK,
  topP,
  ...(processors === undefined ? {} : { processors }),
});

function generatorOf(run: string): Generator {
  const generator = running.get(run);
  if (generator === undefined) throw new Error("This run was not begun.");
  return generator;
}

function framesOf(take: string): Frame[] {
  if (preview?.take !== take) throw new Error("These frames were not loaded.");
  return preview.frames;
}

const calls = {
  freshSeed: (): string => randomSeed(),

  /** Refuses a state that no run can start from, with the code that says why. */
  accept: (state: GeneratorState): void => Generator.fromState(null, state).free(),

  begin(run: string, state: GeneratorState): void {
    calls.forget(run);
    running.set(run, Generator.fromState(null, state));
  },

  step(run: string, bytes: Bytes): Step {
    const frame = Frame.decode(bytes);
    try {
      return { token: generatorOf(run).stepWithFrame(frame), checksum: frame.checksum };
    } finally {
      frame.free();
    }
  },

  forget(run: string): void {
    running.get(run)?.free();
    running.delete(run);
  },

  release,

  /** Where two records first part. The package refuses what is no record. */
  compare: (first: unknown, second: unknown): Comparison => firstDivergence(first as RecordFile, second as RecordFile),

  replay: (start: GeneratorState, frames: Bytes[], claim: Claim): Verdict => verify({ start, frames }, claim),

  /** From the state before the step and the step's frame, which is all it hangs on. */
  reason(state: GeneratorState, bytes: Bytes): Reason {
    const before = Generator.fromState(null, state);
    const frame = Frame.decode(bytes);
    try {
      if (frame.step !== before.position) throw new Error(`The frame is of step ${frame.step}, not ${before.position}.`);
      return { trace: before.trace(frame.logits(before.settings)), vocab: frame.vocab, kept: frame.maxTopK };
    } finally {
      frame.free();
      before.free();
    }
  },

  checksums: (frames: Bytes[]): string[] =>
    frames.map((bytes) => {
      const frame = Frame.decode(bytes);
      try {
        return frame.checksum;
      } finally {
        frame.free();
      }
    }),

  load(take: string, frames: Bytes[]): void {
    for (const frame of preview?.frames ?? []) frame.free();
    preview = null;
    preview = { take, frames: frames.map((bytes) => Frame.decode(bytes)) };
  },

  agreement(take: string, start: GeneratorState, tokens: number[], seed: string, settings: Settings): Agreement {
    const other = Generator.fromState(null, { ...start, seed, settings });
    const wanted = packageSettings(settings);
    try {
      const of = tokens.length;
      for (const [agree, frame] of framesOf(take).slice(0, of).entries()) {
        const was = tokens[agree];
        if (was === undefined) break;
        if (!frame.sufficesFor(wanted)) return { agree, of, parts: { at: "frame", maxTopK: frame.maxTopK } };
        const now = other.stepWithFrame(frame);
        if (now !== was) return { agree, of, parts: { at: "token", was, now } };
      }
      return { agree: of, of, parts: null };
    } finally {
      other.free();
    }
  },

  /** The first frames of the loaded take, in the form the server has them for other settings. */
  carry(take: string, agree: number, settings: Settings): Carried {
    const wanted = packageSettings(settings);
    const needed = settings.processors !== undefined ? null : settings.temperature === 0 ? 1 : settings.top_k;
    const carried = framesOf(take)
      .slice(0, agree)
      .map((frame) => {
        if (frame.maxTopK === needed) return { bytes: new Uint8Array(frame.encode()), checksum: frame.checksum };
        // From all the frame holds, so that a narrower one knows that it leaves something out.
        const again = Frame.forSettings(frame.step, frame.logits({ topK: frame.maxTopK ?? 0 }), wanted);
        try {
          return { bytes: new Uint8Array(again.encode()), checksum: again.checksum };
        } finally {
          again.free();
        }
      });
    return { frames: carried.map(({ bytes }) => bytes), checksums: carried.map(({ checksum }) => checksum) };
  },
};

export type Calls = typeof calls;

export interface Request {
  id: number;
  call: keyof Calls;
  args: unknown[];
}

export type Answer = { id: number; value: unknown } | { id: number; error: { message: string; code: string | undefined } };

addEventListener("message", (event: MessageEvent<Request>) => {
  const { id, call, args } = event.data;
  void loaded
    .then(() => (calls[call] as (...all: unknown[]) => unknown)(...args))
    .then(
      (value): Answer => ({ id, value }),
      (error: unknown): Answer => {
        const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
        return { id, error: { message: error instanceof Error ? error.message : String(error), code } };
      },
    )
    .then((answer) => postMessage(answer));
});
