// Renders the state: draws every part, marks the text and keeps the focus.
import { render } from "lit-html";
import { byId } from "./dom";
import type { Editor, Overlay } from "./editor";
import type { StoryPage } from "./page";
import type { Previewer } from "./preview";
import { isEdited, type State, takeById, takesOf } from "./state";
import { isRun } from "./takes";
import type { Verbs } from "./verbs";
import * as view from "./view";
import { askedSpan } from "./why";
import { putBeside, whyPanel } from "./why.panel";

const nameOf = (one: Element): string | null => one.getAttribute("aria-label") ?? one.textContent;
const gone = (one: Element | null): one is Element =>
  one !== null && one !== document.body && !(one.isConnected && one.checkVisibility());

/** If the focused element was removed or replaced, focuses the nearest one that exists. */
function keepFocus(held: Element | null, { lastSet }: State, editor: Editor): void {
  if (!gone(held)) return;
  const buttons = [...byId("passage").querySelectorAll<HTMLElement>("button, summary")];
  const setting = byId(`set-${lastSet}`);
  const next =
    buttons.find((one) => nameOf(one) === nameOf(held)) ?? (setting.checkVisibility() ? setting : editor.view.contentDOM);
  next.focus({ preventScroll: true });
}

export class Screen {
  constructor(
    private readonly page: StoryPage,
    private readonly previewer: Previewer,
    private readonly verbs: Verbs,
  ) {}

  show(): void {
    const { live, editor } = this.page;
    const state = live.now;
    const held = document.activeElement;
    render(view.header(state, this.verbs), byId("head"));
    render(view.settingsPanel(state, this.verbs), byId("settings"));
    render(view.passage(state, this.verbs), byId("passage"));
    render(view.bar(state, this.verbs), byId("bar"));
    byId("settings").classList.toggle("open", state.sheet);
    byId("why").hidden = state.why === null;
    render(whyPanel(state, this.verbs), byId("why"));
    const over = this.#overlay(state);
    editor.show(over);
    if (state.why !== null) putBeside(byId("why"), byId("paper"), editor.rectOf(over.asked));
    editor.view.requestMeasure();
    keepFocus(held, state, editor);
  }

  #overlay(state: State): Overlay {
    const { work } = state;
    const repeat = work?.repeating === true ? takeById(state, work.take) : undefined;
    const asked = askedSpan(state, this.page.editor.textOf(state.why?.passage ?? ""));
    return {
      active: state.active,
      several: state.ranges.filter(({ id }) => takesOf(state, id).length > 1).map(({ id }) => id),
      preview: this.previewer.marks(),
      again: isRun(repeat) && !isEdited(state) ? { passage: repeat.passage, upTo: repeat.text.length } : null,
      reads: state.reads,
      asked: asked === null || state.why === null ? null : { passage: state.why.passage, ...asked },
    };
  }
}

/** The editor renders only the visible text, so the whole story is rendered for printing. */
export function printWhole(editor: Editor): void {
  addEventListener("beforeprint", () => {
    byId("print").replaceChildren(
      ...editor.text.split("\n").map((line) => {
        const paragraph = document.createElement("p");
        paragraph.textContent = line;
        return paragraph;
      }),
    );
  });
  addEventListener("afterprint", () => byId("print").replaceChildren());
}
