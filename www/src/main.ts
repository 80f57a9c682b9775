// The page is put together here, each part from those before it; then events are bound, and the state is shown whenever it
// changes.
import { EditorView } from "@codemirror/view";
import { actions } from "./actions";
import { byId } from "./dom";
import { Editor } from "./editor";
import { ApiError } from "./errors";
import { bindKeys, textKeys } from "./keyboard";
import { act, attend, beside, complain, type Notifier, type Page, point, speak, type StoryPage, tell } from "./page";
import { Previewer } from "./preview";
import { Reading } from "./reading";
import { startSampler } from "./sampler";
import { printWhole, Screen } from "./screen";
import { Server } from "./server";
import { atFirst, Live, rangeOf } from "./state";
import { Store } from "./store";
import { Stories } from "./stories";
import { Asking } from "./why";
import { Writing } from "./writing";

const live = new Live(atFirst);
const editor = new Editor(byId("paper"), "Opening your story…");
const notifier: Notifier = { live, announce: speak };
const store = new Store("quillmate", {
  blocked: () =>
    tell(notifier, "Another tab has an older version of this page open. Close that tab, and your stories open here."),
  superseded: () => complain(notifier, new ApiError("storage_newer", "A newer page has this database open.")),
});
const storyPage: StoryPage = { ...notifier, editor, store, attend: (passage) => attend(live, editor, passage) };
const stories = new Stories(storyPage);
const page: Page = {
  ...storyPage,
  sampler: startSampler(),
  keep: (take) => stories.keep(take),
  point: (field) => point(live, field),
};
const writing = new Writing(page);
const previewer = new Previewer(page, writing);
const asking = new Asking(page);
const reading = new Reading(page);
const server = new Server(page, () => writing.catchUp());
const verbs = actions({ page, stories, writing, previewer, asking });
const screen = new Screen(page, previewer, verbs);

bindKeys(live, editor, verbs);
editor.start(
  {
    changed({ doc, moved, typed, passage }) {
      const state = live.now;
      // Writing on closes a preview; what it marked may have moved.
      live.set({
        ranges: editor.ranges,
        ...(passage === null ? {} : { active: passage }),
        ...(typed || (passage !== null && passage !== state.active) ? { preview: null } : {}),
      });
      if (rangeOf(live.now, live.now.active) === undefined) live.set({ active: null });
      if (typed) asking.close();
      else if (doc || moved) act(page, asking.follow());
      live.set(beside(live, editor));
      reading.changed();
      if (doc || passage !== null) void stories.changed();
    },
    stop: verbs.stop,
  },
  textKeys(live, verbs),
);
live.listen(() => screen.show());
const whyMoves = (): void => {
  if (live.now.why !== null) screen.show();
};
editor.view.scrollDOM.addEventListener("scroll", whyMoves);
addEventListener("resize", whyMoves);
printWhole(editor);

live.set({});
try {
  await stories.start();
  editor.view.dispatch({ effects: EditorView.scrollIntoView(editor.cursor, { y: "nearest" }) });
  editor.view.focus();
  await server.look();
} catch (error) {
  editor.lock("Your stories cannot be opened, and nothing can be written here. Reload the page to try again.");
  complain(page, error);
}
