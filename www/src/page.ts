// What every part of the page works with.
import type { Editor } from "./editor";
import { advice, codeOf } from "./errors";
import type { startSampler } from "./sampler";
import type { FieldKey } from "./settings";
import type { Live } from "./state";
import type { Store } from "./store";
import type { Take } from "./takes";

export interface Page {
  live: Live;
  editor: Editor;
  store: Store;
  sampler: ReturnType<typeof startSampler>;
  announce: (text: string) => void;
  /** Makes this passage the one that is spoken of. */
  attend: (passage: string | null) => void;
  /** Shows a take's newest form and has it saved, sooner or later. */
  keep: (take: Take) => Promise<void>;
  /** Brings a setting into sight and the focus to it. */
  point: (field: FieldKey) => void;
}

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Errors say what to do; the code stands in small print. */
export function complain({ live, announce }: Page, error: unknown): void {
  live.set({ notice: { tone: "bad", text: advice(error), code: codeOf(error) } });
  announce(advice(error));
}

export function tell({ live, announce }: Page, text: string): void {
  live.set({ notice: { tone: "info", text, code: null } });
  announce(text);
}
