// Keyboard shortcuts: in the text the editor handles them, elsewhere the page.
import type { Extension } from "@codemirror/state";
import { keymap } from "@codemirror/view";
import { byId } from "./dom";
import type { Editor } from "./editor";
import { activeTake, type Live, rangeOf, takesOf } from "./state";
import { isRun } from "./takes";
import type { PassageVerbs, PreviewVerbs, SettingsVerbs, TakeVerbs, WhyVerbs, WritingVerbs } from "./verbs";

type KeyVerbs = WritingVerbs &
  Pick<PassageVerbs, "show"> &
  Pick<TakeVerbs, "replay"> &
  Pick<WhyVerbs, "why" | "closeWhy"> &
  Pick<SettingsVerbs, "toggleSheet"> &
  Pick<PreviewVerbs, "closePreview">;

/** Closes what is open, or else stops the current work; false if there is neither. */
function escape(live: Live, verbs: KeyVerbs): boolean {
  const { work, preview, why, sheet } = live.now;
  if (why !== null) verbs.closeWhy();
  else if (preview !== null) verbs.closePreview();
  else if (sheet) verbs.toggleSheet();
  else if (work !== null) verbs.stop();
  else return false;
  return true;
}

function stepTake(live: Live, verbs: KeyVerbs, by: number): void {
  const { active } = live.now;
  if (active === null) return;
  const takes = takesOf(live.now, active);
  const at = takes.findIndex(({ id }) => id === rangeOf(live.now, active)?.take);
  const next = takes[(at + by + takes.length) % takes.length];
  if (next !== undefined && takes.length > 1) verbs.show(active, next.id);
}

/** For the editor. */
export const textKeys = (live: Live, verbs: KeyVerbs): Extension =>
  keymap.of([
    { key: "Mod-Enter", run: () => (verbs.generate(), true) },
    { key: "Escape", run: () => escape(live, verbs) },
  ]);

export function bindKeys(live: Live, editor: Editor, verbs: KeyVerbs): void {
  // Letters with Alt give other characters on some keyboards, so the physical key counts, not its character.
  const altKeys: Record<string, () => void> = {
    KeyR: verbs.regenerate,
    KeyN: verbs.newTake,
    Comma: () => stepTake(live, verbs, -1),
    Period: () => stepTake(live, verbs, 1),
    KeyP() {
      const take = activeTake(live.now);
      if (isRun(take)) verbs.replay(take);
    },
    KeyW() {
      if (live.now.why === null) verbs.why(null);
      else if (byId("why").contains(document.activeElement)) verbs.closeWhy();
      else byId("why").querySelector("button")?.focus();
    },
    KeyS() {
      if (getComputedStyle(byId("settings")).display === "none") verbs.toggleSheet();
      setTimeout(() => byId("set-temperature").focus());
    },
  };
  addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing) return;
      const inText = editor.view.hasFocus;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.code === "KeyF") {
        // The browser's own search finds only rendered text.
        event.preventDefault();
        editor.search();
      } else if (event.altKey && !event.ctrlKey && !event.metaKey && altKeys[event.code] !== undefined) {
        event.preventDefault();
        altKeys[event.code]?.();
      } else if (!inText && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        verbs.generate();
      } else if (!inText && event.key === "Escape" && document.querySelector(":popover-open") === null && escape(live, verbs)) {
        event.preventDefault();
      }
    },
    { capture: true },
  );
}
