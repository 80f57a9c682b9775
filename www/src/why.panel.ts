// What “Why this word?” shows: beside the word on a desk, a sheet below the text on a phone.
import { html, nothing, svg, type TemplateResult } from "lit-html";
import { type Candidate, sayReason } from "./reasons";
import type { State } from "./state";
import { tokensOf } from "./takes";
import type { WhyVerbs } from "./verbs";
import { keys, stay } from "./view";
import { placeOf } from "./why";

export function whyPanel({ why, table, model, server, work }: State, verbs: WhyVerbs): TemplateResult {
  if (why === null) return html``;
  const { take, at, answer } = why;
  const all = tokensOf(take, take.tokens);
  const name = (token: number): string => table?.name(token) ?? `token ${token}`;
  const close = html`<button class="quiet" aria-label="Close" title="Close (Escape)" @mousedown=${stay} @click=${verbs.closeWhy}>
    ✕
  </button>`;
  if (at === null)
    return html`<div class="why-head">
        <h2>Not drawn</h2>
        ${close}
      </div>
      <p>Nothing was drawn here: these words are yours.</p>`;
  const beside = (by: number, label: string, sign: string): TemplateResult =>
    html`<button
      class="quiet"
      aria-label=${label}
      title=${label}
      aria-disabled=${all[at + by] === undefined ? "true" : "false"}
      @mousedown=${stay}
      @click=${() => verbs.whyStep(by)}
    >
      ${sign}
    </button>`;
  const head = html`<div class="why-head">
    ${beside(-1, "Previous token", "‹")}
    <h2 title="Why this word? ${keys.why} again comes in here; the arrow keys go from word to word">${name(all[at] ?? 0)}</h2>
    ${beside(1, "Next token", "›")} ${close}
  </div>`;
  if (answer === null)
    return html`${head}
      <p>Looking…</p>`;
  // What is shown may still be of the word asked about before.
  const { by, step, reason } = answer;
  const { chance, draw, stages, words } = sayReason(reason, by, name);
  const stands = all[answer.at];
  const now = reason.trace.token;
  const taken = by.id !== take.id && answer.at === (take.lead?.length ?? 0) - 1;
  const kept = by.id === take.id ? "" : `, as take ${by.number} has it`;
  const able = server === "ready" && work === null;
  return html`${head}
    <p data-why>${placeOf(take, answer.at)}${kept}: <b>${chance}</b></p>
    ${
      now === null || now === stands
        ? nothing
        : taken
          ? html`<p data-taken>You took ${name(stands ?? 0)} here. What is said below is of ${name(now)}, which was drawn.</p>`
          : html`<p class="bad">
              What is kept of this step gives ${name(now)} instead: something was changed. Replay here says more.
            </p>`
    }
    <ul class="words">
      ${words.map((word) =>
        bar(word, model === null || model.end_tokens.includes(word.id) ? null : (id) => verbs.takeInstead(by, step, id), !able),
      )}
    </ul>
    <p class="soft">${draw}${able && words.length > 1 ? " Press another word to go on from it instead." : ""}</p>
    <ol class="stages" aria-label="What was left, stage by stage">
      ${stages.map((stage) => html`<li>${stage}</li>`)}
    </ol>`;
}

function bar({ id, name, share, part, chosen }: Candidate, instead: ((id: number) => void) | null, off: boolean): TemplateResult {
  const word =
    chosen || instead === null
      ? html`<span class="word">${name}</span>`
      : html`<button
          class="quiet word"
          aria-label="Take ${name} instead"
          title="Take this word instead: a new take that keeps what stands before it and goes on from there"
          ?disabled=${off}
          @mousedown=${stay}
          @click=${() => instead(id)}
        >
          ${name}
        </button>`;
  return html`<li class=${chosen ? "chosen" : ""}>
    ${word}
    ${svg`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(part * 100, 0.5)} height="8"></rect></svg>`}
    <span class="share">${share}</span>
    <span class="mark">${chosen ? "chosen" : ""}</span>
  </li>`;
}

const GAP = 8;
const within = (at: number, least: number, most: number): number => Math.max(least, Math.min(at, most));

/** Below the word where there is room, else above it, and never out of the paper; sideways only as far as needed. */
export function putBeside(panel: HTMLElement, paper: HTMLElement, word: DOMRect | null): void {
  if (panel.hidden || word === null || getComputedStyle(panel).position !== "fixed") return;
  const room = paper.getBoundingClientRect();
  const { left, width, height } = panel.getBoundingClientRect();
  const beneath = word.bottom + GAP;
  const top = beneath + height + GAP > room.bottom && word.top - GAP - height >= room.top ? word.top - GAP - height : beneath;
  const near = left <= word.left && word.right <= left + width && left > 0 ? left : word.left - 2 * GAP;
  panel.style.setProperty("top", `${within(top, room.top + GAP, Math.max(room.top + GAP, room.bottom - GAP - height))}px`);
  panel.style.setProperty("left", `${within(near, room.left + GAP, room.right - GAP - width)}px`);
}
