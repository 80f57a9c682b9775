// What the page shows, from its state. No element here knows anything the state does not say.
import { html, nothing, type TemplateResult } from "lit-html";
import { live as liveValue } from "lit-html/directives/live.js";
import { sayPreview } from "./preview";
import { others, sayProcessor } from "./processors";
import { type Field, fields, knobs, valueOf } from "./settings";
import {
  activeTake,
  current,
  cutRepeat,
  isCut,
  isEdited,
  lostPassages,
  type Refused,
  type State,
  takeById,
  takesOf,
} from "./state";
import { describeSettings, isRun, plural, type RunTake, type Take } from "./takes";
import { type Beside, sayAgain, sayReplay, type Said, sayVerdict } from "./verdict";
import type {
  NoticeVerbs,
  PassageVerbs,
  PreviewVerbs,
  SettingsVerbs,
  StoryVerbs,
  TakeVerbs,
  WhyVerbs,
  WritingVerbs,
} from "./verbs";

const mac = /Mac|iP(hone|ad|od)/.test(navigator.userAgent);
export const keys = {
  generate: mac ? "⌘↵" : "Ctrl+Enter",
  regenerate: mac ? "⌥R" : "Alt+R",
  newTake: mac ? "⌥N" : "Alt+N",
  previous: mac ? "⌥," : "Alt+,",
  next: mac ? "⌥." : "Alt+.",
  settings: mac ? "⌥S" : "Alt+S",
  replay: mac ? "⌥P" : "Alt+P",
  why: mac ? "⌥W" : "Alt+W",
  search: mac ? "⌘F" : "Ctrl+F",
};

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);

/** A click must not take the cursor out of the text. */
export const stay = (event: Event): void => event.preventDefault();

export function header(state: State, verbs: StoryVerbs & Pick<SettingsVerbs, "toggleSheet">): TemplateResult {
  return html`
    <h1>Quillmate</h1>
    <button class="quiet" popovertarget="stories" title="All your stories; each is saved as you write">Stories</button>
    <div id="stories" popover aria-label="Stories">
      <ul>
        ${state.stories.map(
          ({ id, title }) =>
            html`<li>
              <button
                class="quiet story"
                aria-current=${id === state.story ? "true" : "false"}
                @click=${() => verbs.openStory(id)}
              >
                ${title}
              </button>
            </li>`,
        )}
      </ul>
      <p class="row">
        <button @click=${verbs.newStory}>New story</button>
        ${pick("Open a record…", "A take that was saved with “Save record”, from here or elsewhere", false, verbs.openRecord)}
      </p>
    </div>
    <button
      class="quiet only-phone"
      aria-expanded=${state.sheet ? "true" : "false"}
      aria-controls="settings"
      title="Temperature, top-k, top-p, seed, length (${keys.settings})"
      @click=${verbs.toggleSheet}
    >
      Settings
    </button>
    <div class="saved" data-saved=${state.saved}>${saved(state, verbs)}</div>
    <div class="server" data-status=${state.server}>${server(state)}</div>
  `;
}

/** Always there: whether what is on the screen is also kept. */
function saved({ saved: now, story }: State, verbs: StoryVerbs): TemplateResult {
  if (story === "") return html``;
  switch (now) {
    case "saved":
      return html`<span title="Everything you see is kept in this browser">Saved</span>`;
    case "saving":
      return html`<span>Saving…</span>`;
    case "failed":
      return html`<span class="bad">Not saved: copy your text</span>
        <button title="Copies the whole story" @click=${verbs.copyText}>Copy</button>`;
  }
}

/** A button that asks for a file. */
const pick = (label: string, title: string, off: boolean, take: (file: File) => void): TemplateResult =>
  html`<label class="file" title=${title}
    >${label}<input
      type="file"
      accept=".json,application/json"
      ?disabled=${off}
      @change=${(event: Event) => {
        const input = event.target as HTMLInputElement;
        const file = input.files?.[0];
        input.value = "";
        if (file !== undefined) take(file);
      }}
  /></label>`;

function server({ server: status, loaded, model }: State): TemplateResult {
  switch (status) {
    case "unknown":
      return html`<span>Looking for the server…</span>`;
    case "loading":
      return html`<label
        >Model loading: ${megabytes(loaded.bytes)} of ${megabytes(loaded.of)} MB
        <progress max=${loaded.of || 1} value=${loaded.bytes}></progress
      ></label>`;
    case "away":
      return html`<span>Offline <small>replay and preview still work</small></span>`;
    case "ready":
      return html`<span
        title=${model === null ? "" : `${model.name}, model file ${model.sha256.slice(0, 12)}…, ${model.vocab} tokens`}
        ><span class="wide">${model?.name ?? ""}</span><span class="only-phone">Ready</span></span
      >`;
  }
}

export function settingsPanel(state: State, verbs: SettingsVerbs & PreviewVerbs & Pick<PassageVerbs, "putBack">): TemplateResult {
  const { refused } = state;
  const take = activeTake(state);
  const seedOf = state.seed ?? (isRun(take) ? take.start.seed : "");
  const lost = lostPassages(state);
  return html`
    <div class="panel">
      <div class="panel-head">
        <h2>Settings</h2>
        <button class="quiet only-phone" @click=${verbs.toggleSheet}>Close</button>
      </div>
      ${fields.map((field) => {
        const value =
          field.key === "seed"
            ? (state.preview?.seed ?? seedOf)
            : String(field.key === "length" ? state.length : valueOf(state.settings, field.key));
        return setting(field, value, verbs, refused.get(field.key), field.key === "seed" ? freshChoice(state, verbs) : nothing);
      })}
      ${further(state, verbs)}
      ${
        lost.length === 0
          ? nothing
          : html`<details class="lost">
              <summary>
                ${plural(lost.length, "passage")} kept that ${lost.length === 1 ? "is" : "are"} no longer in the text
              </summary>
              <ul>
                ${lost.map((one) => html`<li><span>${one.text.trim().slice(0, 80) || "(empty)"}</span> <button class="quiet" @click=${() => verbs.putBack(one.passage)}>Put back at the cursor</button></li>`)}
              </ul>
            </details>`
      }
    </div>
    ${state.preview === null ? nothing : preview(state, verbs)}
  `;
}

/** The processors: folded away, but never on without being said. */
function further({ settings, model, length, refused }: State, verbs: SettingsVerbs): TemplateResult {
  const { processors = [] } = settings;
  const unlisted = others(processors);
  const room = model === null ? "" : `, about ${Math.ceil((model.vocab * 4 * length) / 1e6)} MB for ${plural(length, "token")}`;
  return html`<details class="further">
    <summary>More<small>${processors.length === 0 ? "" : processors.map(sayProcessor).join(", ")}</small></summary>
    <p>With any of these on, a take keeps the model's rating of every word, so that it can be had again${room}.</p>
    ${knobs.map((field) => setting(field, String(valueOf(settings, field.key)), verbs, refused.get(field.key), nothing))}
    ${
      unlisted.length === 0
        ? nothing
        : html`<p data-foreign>
            Also on, from the take these settings came from: ${unlisted.map(sayProcessor).join(", ")}.
            <button class="quiet" @click=${verbs.plainProcessors}>Take out</button>
          </p>`
    }
  </details>`;
}

function setting(
  { key, label, sentence, min, max, step }: Field,
  value: string,
  verbs: SettingsVerbs,
  refused: ReturnType<Refused["get"]>,
  rest: unknown,
): TemplateResult {
  const input = (event: Event): void => verbs.set(key, (event.target as HTMLInputElement).value);
  const typed = refused?.typed ?? value;
  return html`
    <div class="setting" data-setting=${key}>
      <div class="row">
        <label for="set-${key}">${label}</label>
        <input
          id="set-${key}"
          inputmode=${step < 1 ? "decimal" : "numeric"}
          autocomplete="off"
          placeholder=${key === "seed" ? "fresh" : ""}
          aria-describedby="about-${key}"
          aria-invalid=${refused === undefined ? "false" : "true"}
          .value=${liveValue(typed)}
          @input=${input}
        />
      </div>
      <input
        type="range"
        aria-label="${label}, slider"
        min=${min}
        max=${max}
        step=${step}
        .value=${liveValue(value === "" ? "0" : value)}
        @input=${input}
      />
      <p id="about-${key}">${refused === undefined ? sentence : html`<span class="bad">${refused.why}</span>`}</p>
      ${rest}
    </div>
  `;
}

const freshChoice = (state: State, verbs: SettingsVerbs): TemplateResult => {
  const take = activeTake(state);
  return html`
    <label class="check"
      ><input type="checkbox" .checked=${liveValue(state.seed === null)} @change=${verbs.freshSeed} /> A fresh seed each
      time</label
    >
    ${
      state.seed === null && state.preview === null && isRun(take)
        ? html`<p data-last-seed>Shown is the last one, of the passage at the cursor. The next is drawn anew.</p>`
        : nothing
    }
  `;
};

function preview(state: State, verbs: PreviewVerbs): TemplateResult {
  const { preview: shown, table } = state;
  if (shown === null) return html``;
  const parts = shown.result?.parts ?? null;
  return html`
    <section class="preview" aria-label="Preview" data-preview-of=${shown.result === null ? "" : shown.answered}>
      <p data-preview><b>Preview.</b> ${sayPreview(shown, (token) => table?.name(token) ?? `token ${token}`)}</p>
      <p class="row">
        ${parts === null ? nothing : html`<button class="primary" ?disabled=${state.server !== "ready" || state.work !== null} title="A new take: what stays is here at once, the server is asked for the rest" @click=${verbs.goOn}>Continue from there</button>`}
        <button
          class="quiet"
          title="Close the preview (Escape); the settings stay for the next take"
          @click=${verbs.closePreview}
        >
          Close
        </button>
      </p>
      ${parts !== null && state.server !== "ready" ? html`<p><small>The server is needed for what follows; it cannot be reached now.</small></p>` : nothing}
    </section>
  `;
}

export function bar(state: State, verbs: WritingVerbs & NoticeVerbs): TemplateResult {
  const { work, notice } = state;
  const take = activeTake(state);
  const ready = state.server === "ready";
  const busy = !ready || work !== null;
  return html`
    ${
      notice === null
        ? nothing
        : html`<div class="notice ${notice.tone}">
            <p>${notice.text} ${notice.code === null ? nothing : html`<small>${notice.code}</small>`}</p>
            <button class="quiet" aria-label="Dismiss this message" @click=${verbs.dismiss}>×</button>
          </div>`
    }
    <div class="verbs ${work === null ? "" : "busy"}">
      ${verb(
        work === null
          ? {
              id: "generate",
              label: "Generate",
              key: keys.generate,
              title: "Go on from the cursor",
              off: !ready,
              act: verbs.generate,
            }
          : {
              id: "stop",
              label: "Stop",
              key: "Esc",
              title: "Stop here; what is written stays",
              off: false,
              act: verbs.stop,
            },
      )}
      ${verb({ id: "regenerate", label: "Regenerate", title: `This passage again, same seed and same settings: the same text (${keys.regenerate})`, off: busy || !isRun(take), act: verbs.regenerate })}
      ${verb({ id: "new-take", label: "New take", title: `This passage again with another seed; the takes so far are kept (${keys.newTake})`, off: busy || take === undefined, act: verbs.newTake })}
      <span class="progress">${progress(state)}</span>
    </div>
  `;
}

/** One element whatever it says, and never disabled in the strict sense: either would take the focus away. */
function verb(one: { id: string; label: string; key?: string; title: string; off: boolean; act: () => void }): TemplateResult {
  const { id, label, key, title, off, act } = one;
  // The second click of a double click on Generate must not stop it.
  const press = (event: MouseEvent): void => (off || event.detail > 1 ? undefined : act());
  return html`<button
    id=${id}
    class=${key === undefined ? "" : "primary"}
    title=${key === undefined ? title : `${title} (${key})`}
    aria-disabled=${off ? "true" : "false"}
    @mousedown=${stay}
    @click=${press}
  >
    ${label} ${key === undefined ? nothing : html`<kbd>${key}</kbd>`}
  </button>`;
}

function progress(state: State): TemplateResult | string {
  const { work } = state;
  if (work === null) return state.server === "loading" ? "You can write meanwhile." : "";
  switch (work.phase) {
    case "asking":
      return "Asking the server…";
    case "checking":
      return "Asking the server to recompute it…";
    case "stopping":
      return "Stopping…";
    case "writing":
      return html`<progress max=${work.of} value=${work.token} aria-label="Tokens written"></progress>
        ${work.repeating ? "same so far, " : ""}token ${work.token} of ${work.of}`;
  }
}

/** All about the passage at the cursor. It has its own place under the paper, so that no word moves when it changes. */
export function passage(state: State, verbs: PassageVerbs & TakeVerbs & Pick<WhyVerbs, "why">): TemplateResult {
  const { active } = state;
  const take = current(state, active);
  if (active === null || take === undefined)
    return html`<p class="line soft">
      ${state.ranges.length === 0 ? "What the model writes is tinted." : "Put the cursor into a tinted passage to see its takes."}
      ${reads(state)}
    </p>`;
  const takes = takesOf(state, active);
  const writing = state.work?.take === take.id;
  const place = takes.findIndex(({ id }) => id === take.id) + 1;
  const beside: Beside = { edited: isEdited(state), elsewhere: state.elsewhere && !writing };
  return html`
    <div class="line" role="group" aria-label="About this passage">
      <span class="item takes"
        >take ${place} of
        ${takes.length}${
          takes.length > 1
            ? html`<span class="pills" role="group" aria-label="Takes of this passage"
                >${takes.map((one, index) => pill(state, one, index + 1, one.id === take.id, verbs))}</span
              >`
            : nothing
        }</span
      >
      ${isRun(take) ? runLine(state, take, writing, beside, verbs) : html`<span class="item">${handLine(state, take)}</span>`}
      ${
        beside.edited
          ? html`<span class="item"
              >edited by you
              <button
                class="quiet"
                title="Puts the take's own text back; yours is kept as a take"
                @mousedown=${stay}
                @click=${() => verbs.restore(active)}
              >
                Put back
              </button></span
            >`
          : nothing
      }
      ${
        beside.elsewhere
          ? html`<span class="item" data-elsewhere title="The text before this passage has changed since the model read it"
              >after another beginning</span
            >`
          : nothing
      }
      ${
        (isRun(take) && take.tokens.length > 0) || (!isRun(take) && take.of !== undefined)
          ? html`<button
              class="quiet"
              title="What the word at the cursor was chosen from (${keys.why})"
              @mousedown=${stay}
              @click=${() => verbs.why(active)}
            >
              Why this word?
            </button>`
          : nothing
      }
      ${isRun(take) && !writing ? more(state, take, verbs) : nothing} ${reads(state)}
    </div>
    ${isRun(take) ? below(state, take, beside, verbs) : nothing}
  `;
}

/** Of a long text the model reads the end alone: where that begins is marked in the text, and said here. */
const reads = ({ reads: from }: State): TemplateResult | typeof nothing =>
  from === null
    ? nothing
    : html`<span
        class="item reads"
        data-reads
        title="The text is longer than the model can read: what stands before the mark is not seen by it"
        >the model reads from the mark on</span
      >`;

function handLine(state: State, take: Take): string {
  const of = take.kind === "hand" && take.cut === true ? takeById(state, take.of) : undefined;
  return of === undefined ? "your own version" : `the beginning of take ${of.number}; the rest is your own text now`;
}

const pill = (state: State, take: Take, number: number, isCurrent: boolean, verbs: PassageVerbs): TemplateResult =>
  html`<button
    class="pill"
    data-take=${number}
    aria-pressed=${isCurrent ? "true" : "false"}
    aria-label="Take ${number}"
    title="${take.kind === "hand" ? "Your own version" : `Take ${number}, seed ${take.start.seed}`} (${keys.previous} and ${keys.next} step through them)"
    ?disabled=${state.work?.passage === take.passage}
    @mousedown=${stay}
    @click=${() => verbs.show(take.passage, take.id)}
  >
    ${number}
  </button>`;

function runLine(state: State, take: RunTake, writing: boolean, beside: Beside, verbs: TakeVerbs): TemplateResult {
  const said = sayVerdict(take, state.table, beside);
  const again = sayAgain(take, beside);
  return html`
    <span class="item"
      ><button class="quiet seed" title="Copy the seed" @mousedown=${stay} @click=${() => verbs.copySeed(take.start.seed)}>
        seed ${take.start.seed}
      </button></span
    >
    ${take.lead === undefined ? nothing : html`<span class="item" title="Another word was taken here; what stands before it is kept">from ${state.table?.name(take.lead.at(-1) ?? null) ?? "a word of yours"}</span>`}
    <span class="item wide">${describeSettings(take.start.settings)}</span>
    <span class="item"
      >${writing ? `token ${take.tokens.length} of ${take.length}` : plural(take.tokens.length, "token")}${take.reason === "end_token" ? ", the model ended here" : take.reason === "stopped" ? ", stopped" : ""}</span
    >
    ${writing || take.status !== "done" ? nothing : verdict(said)}
    ${again === null ? nothing : html`<span class="item verdict ${beside.edited || beside.elsewhere || take.again?.tokens !== take.tokens.length ? "waiting" : "good"}" data-again>${again}</span>`}
  `;
}

const closeMenu = (event: Event): void => (event.currentTarget as HTMLElement).closest("details")?.removeAttribute("open");
const leaveMenu = (event: FocusEvent): void => {
  const details = event.currentTarget as HTMLDetailsElement;
  if (!(event.relatedTarget instanceof Node && details.contains(event.relatedTarget))) details.open = false;
};
const escapeMenu = (event: KeyboardEvent): void => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  closeMenu(event);
  (event.currentTarget as HTMLElement).querySelector("summary")?.focus();
};

/** A word, and behind it all that was compared: for a mouse, a keyboard and a screen reader alike. */
const verdict = (said: Said): TemplateResult =>
  html`<span class="item"
    ><details class="more about" @focusout=${leaveMenu} @keydown=${escapeMenu}>
      <summary class="verdict ${said.tone}" title="What was compared, and when" data-verdict>${said.short}</summary>
      <p class="menu" data-about>${said.long}</p>
    </details></span
  >`;

function more(state: State, take: RunTake, verbs: TakeVerbs): TemplateResult {
  return html`<details class="more" @focusout=${leaveMenu} @keydown=${escapeMenu}>
    <summary title="Replay, record, test vector">More</summary>
    <div class="menu" @click=${closeMenu}>
      <button
        class="quiet"
        title="Computes the take again in this browser, from what it keeps; no server needed (${keys.replay})"
        @click=${() => verbs.replay(take)}
      >
        Replay here
      </button>
      ${(take.verdict === null || take.verdict.tokens < take.tokens.length) && take.run !== null ? html`<button class="quiet" ?disabled=${state.server !== "ready"} title="Has the server recompute it" @click=${() => verbs.verify(take)}>Verify</button>` : nothing}
      <button
        class="quiet"
        title="Puts this take's settings and seed into the settings panel"
        @click=${() => verbs.useSettings(take)}
      >
        Use its settings
      </button>
      <button class="quiet" title="All a replay needs, in one file" @click=${() => verbs.saveRecord(take)}>Save record</button>
      ${pick("Compare with a record…", "Says where this take and a saved record first part, and in what", false, (file) => verbs.compare(take, file))}
      ${take.run !== null ? html`<button class="quiet" ?disabled=${state.server !== "ready"} title="Says where this take and the server’s record of it first part" @click=${() => verbs.compareWithServer(take)}>Compare with the server’s record</button>` : nothing}
      <button class="quiet" title="For engineers: every step with its frame and its token" @click=${() => verbs.copyVector(take)}>
        Copy as test vector
      </button>
    </div>
  </details>`;
}

const TONES = { same: "good", diverged: "bad", insufficient: "waiting" };

const PARTED = {
  model: "the server now runs another model",
  prompt: "the text before it was not read as the same tokens",
  logits: "the server's logits were not the same",
};

function below(state: State, take: RunTake, beside: Beside, verbs: TakeVerbs): TemplateResult {
  const cut = isCut(state, take) ? take : cutRepeat(state, take);
  const said = sayVerdict(take, state.table, beside);
  const replay = sayReplay(take, state.table, beside);
  const later = state.takes.find((one): one is RunTake => isRun(one) && one.parted?.from === take.id);
  const grown = take.compared?.tokens !== undefined && take.compared.tokens < take.tokens.length;
  return html`
    ${
      cut === undefined
        ? nothing
        : html`<p class="below waiting" data-cut>
            ${state.server === "away" ? "Connection lost: " : "Cut short: "}${cut === take ? "" : "the regeneration is "}kept up
            to token ${cut.tokens.length} of ${cut.length}.
            <button
              ?disabled=${state.work !== null}
              title="Goes on from token ${cut.tokens.length + 1} (${keys.regenerate})"
              @mousedown=${stay}
              @click=${() => verbs.resume(cut)}
            >
              Resume
            </button>
          </p>`
    }
    ${take.status === "failed" ? html`<p class="below bad">The server could not go on with this run. What came is kept. <small>${take.reason}</small></p>` : nothing}
    ${
      take.parted === null
        ? nothing
        : html`<p class="below bad" data-parted>
            This was to be the same text again, and parts from it at token ${take.parted.at + 1}: ${PARTED[take.parted.why]}. Both
            takes are kept.
          </p>`
    }
    ${
      later?.parted
        ? html`<p class="below bad" data-doubted>
            A later regeneration parted from this take at token ${later.parted.at + 1}: it is take ${later.number}.
          </p>`
        : nothing
    }
    ${said.tone === "bad" ? explained(said, "data-differs") : nothing}
    ${take.compared ? html`<p class="below ${TONES[take.compared.outcome]}" data-compared><b>Compared with ${take.compared.other}${grown ? `, when the take had ${plural(take.compared.tokens ?? 0, "token")}` : ""}.</b> ${take.compared.paragraph}</p>` : nothing}
    ${replay === null ? nothing : replay.tone === "bad" ? explained(replay, "data-replay") : html`<p class="below ${replay.tone}" data-replay title=${replay.long}>${replay.short}</p>`}
  `;
}

const explained = (said: Said, mark: "data-differs" | "data-replay"): TemplateResult =>
  mark === "data-differs"
    ? html`<p class="below bad" data-differs>${said.long}</p>`
    : html`<p class="below bad" data-replay>${said.long}</p>`;
