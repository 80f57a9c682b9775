// Data and helpers shared by all parts of the page.
import { byId } from "./dom";
import type { Editor } from "./editor";
import { advice, codeOf } from "./errors";
import { answers } from "./prompt";
import type { startSampler } from "./sampler";
import type { FieldKey } from "./settings";
import { activeTake, type Live, type State } from "./state";
import type { Store } from "./store";
import { isRun, type Take } from "./takes";

/** What is needed to show the writer a message. */
export interface Notifier {
  live: Live;
  announce: (text: string) => void;
}

/** What stories are shown with and kept in. */
export interface StoryPage extends Notifier {
  editor: Editor;
  store: Store;
  /** Makes this passage the active one. */
  attend: (passage: string | null) => void;
}

export interface Page extends StoryPage {
  sampler: ReturnType<typeof startSampler>;
  /** Shows the latest version of a take and schedules saving it. */
  keep: (take: Take) => Promise<void>;
  /** Scrolls to a setting and focuses it. */
  point: (field: FieldKey) => void;
}

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Errors say what to do; the code is shown in small print. */
export function complain({ live, announce }: Notifier, error: unknown): void {
  live.set({ notice: { tone: "bad", text: advice(error), code: codeOf(error) } });
  announce(advice(error));
}

export function tell({ live, announce }: Notifier, text: string): void {
  live.set({ notice: { tone: "info", text, code: null } });
  announce(text);
}

/** Work that is not awaited: if it fails, the writer is told. */
export function act(page: Notifier, work: Promise<unknown>): void {
  void work.catch((error: unknown) => complain(page, error));
}

/** Announced by screen readers. */
export function speak(text: string): void {
  const say = byId("say");
  const one = document.createElement("p");
  one.textContent = text;
  say.append(one);
  while (say.childElementCount > 8) say.firstElementChild?.remove();
}

/** How the active passage differs from its take. */
export function beside(live: Live, editor: Editor): Pick<State, "standing" | "elsewhere"> {
  const { active } = live.now;
  const take = activeTake(live.now);
  const range = editor.range(active);
  if (active === null || range === undefined) return { standing: "", elsewhere: false };
  const elsewhere = isRun(take) && !answers(take.prompt, take.whole, editor.before(range.from));
  return { standing: editor.textOf(active), elsewhere };
}

export function attend(live: Live, editor: Editor, passage: string | null): void {
  const active = editor.range(passage) === undefined ? null : passage;
  live.set({ ranges: editor.ranges, active });
  live.set(beside(live, editor));
}

export function point(live: Live, field: FieldKey): void {
  const input = byId(`set-${field}`) as HTMLInputElement;
  if (getComputedStyle(byId("settings")).display === "none") live.set({ sheet: true });
  input.closest("details")?.setAttribute("open", "");
  // After the sheet and the focused element have been rendered.
  setTimeout(() => (input.focus(), input.select()));
}
