// Explains why a word was chosen, in terms for writers. Tokens are counted from 1.
import { sayProcessor } from "./processors";
import type { Reason } from "./sampler.worker";
import type { RunTake } from "./takes";
import type { Settings } from "./wire";

export interface Candidate {
  id: number;
  name: string;
  /** “31 %”; of a word chosen without a draw, its rating. */
  share: string;
  /** Of the bar, from 0 to 1. */
  part: number;
  chosen: boolean;
}

export interface SaidReason {
  /** “token 12 of 40” */
  place: string;
  /** “31 %, the second likeliest of 8 left” */
  chance: string;
  draw: string;
  /** What each stage kept, in order. */
  stages: string[];
  /** The most probable words after the last stage, and the chosen one if it is not among them. */
  words: Candidate[];
}

const RANKS = ["the likeliest", "the second likeliest", "the third likeliest", "the fourth likeliest", "the fifth likeliest"];

export function percent(share: number): string {
  if (share === 1) return "100 %";
  if (share > 0.99) return "over 99 %";
  if (share < 0.001) return "under 0.1 %";
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

const whole = (n: number): string => n.toLocaleString("en");

type Told = Pick<RunTake, "start" | "tokens">;

export function sayReason(reason: Reason, { start, tokens }: Told, name: (token: number) => string): SaidReason {
  const { trace } = reason;
  const greedy = trace.draw === null;
  // Without a draw the last stage holds only the chosen word; the candidates are in the stage before.
  const last = trace.stages.at(greedy ? -2 : -1);
  const top = (last?.top ?? []).map((one) => ({ id: one.id, number: "probability" in one ? one.probability : one.logit }));
  const best = top[0]?.number ?? 0;
  const words = top.map(({ id, number }): Candidate => ({
    id,
    name: name(id),
    share: greedy ? `rated ${number.toFixed(2)}` : percent(number),
    part: greedy ? Math.exp(number - best) : number,
    chosen: id === trace.token,
  }));
  const { token, probability } = trace;
  if (token !== null && probability !== null && !words.some(({ chosen }) => chosen))
    words.push({ id: token, name: name(token), share: percent(probability), part: probability, chosen: true });
  const rank = RANKS[top.findIndex(({ id }) => id === token)] ?? "not one of the five likeliest";
  const left = last?.candidates ?? 0;
  return {
    place: `token ${trace.step - start.step + 1} of ${tokens.length}`,
    chance:
      probability === null
        ? "always the likeliest"
        : left === 1
          ? "100 %, the only word left"
          : `${percent(probability)}, ${rank} of ${whole(left)} left`,
    draw: trace.draw === null ? "No draw: temperature is 0." : `The draw was ${trace.draw.toFixed(4)}.`,
    stages: sayStages(reason, start.settings),
    words,
  };
}

function sayStages({ trace, vocab, kept }: Reason, settings: Settings): string[] {
  const { temperature, top_k, top_p, processors = [] } = settings;
  const [, ...stages] = trace.stages;
  const own: Record<string, string | null> = {
    greedy: "temperature 0",
    top_k: top_k === 0 ? null : `top-k ${top_k}`,
    temperature: temperature === 1 ? null : `temperature ${temperature}`,
    top_p: top_p === 1 ? null : `top-p ${top_p}`,
  };
  const said = stages.flatMap(({ stage, candidates, removed, draw }, index) => {
    const processor = processors[index];
    const what = processor === undefined ? (own[stage] ?? null) : sayProcessor(processor);
    if (what === null) return [];
    const drew = draw === undefined ? "" : `, drew ${draw.toFixed(2)}`;
    return [`${what}${drew}${removed === 0 ? "" : `: ${whole(candidates)} left`}`];
  });
  const start = kept === null ? `${whole(vocab)} words` : `of ${whole(vocab)} words, the ${whole(kept)} kept`;
  return [start, ...said];
}
