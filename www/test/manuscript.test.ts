// The editor's state under anything a writer can do, in any order: text, passages and takes agree after every step, and
// undo and redo lead through the very same texts.
import { isolateHistory, redo, redoDepth, undo, undoDepth } from "@codemirror/commands";
import { type EditorState, type Transaction, type TransactionSpec } from "@codemirror/state";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Manuscript, manuscript, opened, spacesBefore, type Target } from "../src/manuscript";
import { passageAround, type PassageRange, passages, pinned, writing } from "../src/passages";

class Desk implements Target {
  state: EditorState;
  readonly text = new Manuscript(this);

  constructor(doc: string, ranges: readonly PassageRange[] = []) {
    this.state = opened(doc, ranges, doc.length, manuscript());
  }
  dispatch = (...specs: TransactionSpec[]): void => {
    for (const spec of specs) this.apply(this.state.update(spec));
  };
  apply(tr: Transaction): void {
    this.state = tr.state;
    this.text.follow(tr);
  }
  /** What the writer types, deletes, cuts or pastes; each a step of its own. */
  edit(from: number, to: number, insert: string): void {
    this.dispatch({ changes: { from, to, insert }, annotations: isolateHistory.of("full"), userEvent: "input" });
  }
  undo = (): boolean => undo({ state: this.state, dispatch: (tr) => this.apply(tr) });
  redo = (): boolean => redo({ state: this.state, dispatch: (tr) => this.apply(tr) });
  get doc(): string {
    return this.state.doc.toString();
  }
  get ranges(): readonly PassageRange[] {
    return this.state.field(passages);
  }
  get shown(): Shown {
    return { doc: this.doc, ranges: this.ranges.map((range) => ({ ...range })) };
  }
  get texts(): Map<string, string> {
    return new Map(this.ranges.map(({ id, from, to }) => [id, this.doc.slice(from, to)]));
  }
}

interface Shown {
  doc: string;
  ranges: PassageRange[];
}

/** A place as a share of the text. */
const share = fc.integer({ min: 0, max: 999 });
const words = fc.constantFrom("a", "bb ", " the", "\n", " ", "x y", ".");
const written = fc.array(words, { maxLength: 4 });
const meanwhile = fc.array(fc.record({ after: fc.nat(3), at: share, long: fc.nat(4), insert: words, side: fc.boolean() }), {
  maxLength: 3,
});

const step = fc.oneof(
  fc.record({ do: fc.constant("type" as const), at: share, insert: words }),
  fc.record({ do: fc.constant("delete" as const), at: share, long: share }),
  fc.record({ do: fc.constant("cut" as const), at: share, long: share }),
  fc.record({ do: fc.constant("paste" as const), at: share, long: share }),
  fc.record({ do: fc.constant("generate" as const), at: share, pieces: written, edits: meanwhile }),
  fc.record({ do: fc.constant("new take" as const), which: share, pieces: written, edits: meanwhile }),
  fc.record({ do: fc.constant("branch" as const), which: share, at: share, pieces: written, edits: meanwhile }),
  fc.record({ do: fc.constant("switch" as const), which: share, take: share }),
  fc.record({ do: fc.constant("put back" as const), which: share, at: share }),
  fc.record({ do: fc.constant("undo" as const), times: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant("redo" as const), times: fc.integer({ min: 1, max: 3 }) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
type Edits = typeof meanwhile extends fc.Arbitrary<infer E> ? E : never;

/** A writer at the desk, who remembers every text and every take there was. */
class Writer {
  readonly desk = new Desk("Once there was a door.\n\nIt was shut. ");
  readonly takes = new Map<string, { passage: string; text: string }>();
  /** What was shown at each depth of the history, and where in it the desk is. */
  past: Shown[] = [this.desk.shown];
  at = 0;
  clipboard = "";

  #id(kind: string): string {
    return `${kind}${this.takes.size}`;
  }
  #take(passage: string, text: string): string {
    const id = this.#id("t");
    this.takes.set(id, { passage, text });
    return id;
  }
  #place(at: number): number {
    return Math.round((this.desk.doc.length * at) / 999);
  }
  #which<T>(of: readonly T[], which: number): T | undefined {
    return of[which % Math.max(1, of.length)];
  }
  #did(shown: Shown): void {
    if (JSON.stringify(shown) === JSON.stringify(this.past[this.at]) && undoDepth(this.desk.state) === this.at) return;
    this.past = [...this.past.slice(0, this.at + 1), shown];
    this.at++;
  }
  /** As the page does it: what a new text cuts off from a passage becomes a take of that passage first. */
  #head(at: number): string | undefined {
    const cut = this.desk.text.cutAt(at);
    return cut === null ? undefined : this.#take(cut.passage.id, cut.head);
  }
  /** Passages that a text at `at` cuts in two, by their place alone. */
  #cutBy(at: number): string[] {
    const from = at - spacesBefore(this.desk.state, at);
    return this.desk.ranges.filter((one) => one.from < at && from < one.to).map(({ id }) => id);
  }
  /** As the page does it: the writer's own version of a passage is a take before another one replaces it. */
  #keepHand(passage: PassageRange): void {
    const text = this.desk.text.textOf(passage.id);
    if (this.takes.get(passage.take)?.text === text) return;
    this.#take(passage.id, text);
  }

  do(next: Step): void {
    const { desk } = this;
    const before = desk.texts;
    switch (next.do) {
      case "type":
        return this.#edit(this.#place(next.at), 0, next.insert, before);
      case "delete":
        return this.#edit(this.#place(next.at), next.long % 12, "", before);
      case "cut": {
        const from = this.#place(next.at);
        this.clipboard = desk.doc.slice(from, from + (next.long % 12));
        return this.#edit(from, next.long % 12, "", before);
      }
      case "paste":
        return this.#edit(this.#place(next.at), next.long % 5, this.clipboard, before);
      case "generate":
        return this.#write(this.#id("p"), "", this.#place(next.at), next.pieces, next.edits);
      case "new take":
      case "branch": {
        const passage = this.#which(desk.ranges, next.which);
        if (passage === undefined) return;
        this.#keepHand(passage);
        const text = this.desk.text.textOf(passage.id);
        const kept = next.do === "branch" ? `${text.slice(0, next.at % (text.length + 1))}!` : "";
        return this.#write(passage.id, kept, null, next.pieces, next.edits);
      }
      case "switch": {
        const passage = this.#which(desk.ranges, next.which);
        if (passage === undefined) return;
        this.#keepHand(passage);
        const [id, take] = this.#which(
          [...this.takes].filter(([, one]) => one.passage === passage.id),
          next.take,
        ) ?? ["", undefined];
        if (take === undefined || take.text === "") return;
        const others = desk.texts;
        desk.text.put(passage.id, id, take.text, next.take % 2 === 0 ? "" : null);
        this.#untouched(others, [passage.id]);
        expect(desk.text.textOf(passage.id)).toBe(take.text);
        return this.#did(desk.shown);
      }
      case "put back": {
        const gone = [...this.takes].filter(([, { passage, text }]) => text !== "" && desk.text.range(passage) === undefined);
        const [id, take] = this.#which(gone, next.which) ?? ["", undefined];
        if (take === undefined) return;
        const at = this.#place(next.at);
        const others = desk.texts;
        const cut = this.#cutBy(at);
        desk.text.insert(take.passage, id, take.text, at, this.#head(at));
        this.#untouched(others, cut);
        expect(desk.text.textOf(take.passage)).toBe(take.text);
        return this.#did(desk.shown);
      }
      case "undo":
        for (let n = 0; n < next.times; n++) this.back();
        return;
      case "redo":
        for (let n = 0; n < next.times; n++) this.forth();
    }
  }

  back(): void {
    const moved = this.desk.undo();
    expect(moved).toBe(this.at > 0);
    if (moved) this.at--;
    expect(this.desk.shown).toEqual(this.past[this.at]);
  }
  forth(): void {
    const moved = this.desk.redo();
    expect(moved).toBe(this.at < this.past.length - 1);
    if (moved) this.at++;
    expect(this.desk.shown).toEqual(this.past[this.at]);
  }

  #edit(from: number, long: number, insert: string, before: Map<string, string>): void {
    const to = Math.min(this.desk.doc.length, from + long);
    if (from === to && insert === "") return;
    const text = this.desk.doc;
    const touched = this.desk.ranges.filter((one) =>
      from === to ? one.from < from && from < one.to : one.from < to && from < one.to,
    );
    this.desk.edit(from, to, insert);
    expect(this.desk.doc).toBe(text.slice(0, from) + insert + text.slice(to));
    this.#untouched(
      before,
      touched.map(({ id }) => id),
    );
    this.#did(this.desk.shown);
  }

  /** Passages nobody touched stand as they stood, to the character. */
  #untouched(before: Map<string, string>, touched: readonly string[]): void {
    const now = this.desk.texts;
    for (const [id, text] of before)
      if (!touched.includes(id)) expect(now.get(id) ?? "").toBe(text.trim() === "" ? (now.get(id) ?? "") : text);
  }

  #write(passage: string, kept: string, place: number | null, pieces: readonly string[], edits: Edits): void {
    const { desk } = this;
    const start = place ?? desk.text.range(passage)?.from ?? 0;
    const cut = desk.text.cutAt(start);
    const goes = this.#cutBy(start);
    const head = this.#head(start);
    const take = this.#take(passage, kept);
    // A second desk, where the writer does the same and nothing is written.
    const twin = new Desk(desk.doc, desk.ranges);
    let [from, to] = [start - spacesBefore(desk.state, start), desk.text.range(passage)?.to ?? start];
    const seen: Shown[] = [];
    const others = desk.texts;
    desk.text.begin(passage, take, kept, place, head === undefined ? {} : { head });
    const touched = new Set([passage, ...goes]);
    for (let n = 0; n <= pieces.length; n++) {
      for (const edit of edits.filter(({ after }) => after === n)) {
        const open = desk.text.range(passage);
        if (open === undefined) throw new Error("The open passage is gone.");
        // Before or after what is being written, never across it.
        const side = edit.side ? { low: 0, high: from } : { low: to, high: twin.doc.length };
        const a = side.low + Math.round(((side.high - side.low) * edit.at) / 999);
        const b = Math.min(side.high, a + edit.long);
        const by = edit.side ? 0 : open.to - open.from - (to - from);
        if (open.from === open.to && !edit.side && a === to) continue;
        for (const one of desk.ranges) if (one.from < b + by && a + by < one.to) touched.add(one.id);
        for (const one of desk.ranges) if (a === b && one.from < a + by && a + by < one.to) touched.add(one.id);
        twin.edit(a, b, edit.insert);
        desk.edit(a + by, b + by, edit.insert);
        if (edit.side) [from, to] = [from + edit.insert.length - (b - a), to + edit.insert.length - (b - a)];
        seen.push(twin.shown);
      }
      const piece = pieces[n];
      if (piece === undefined) continue;
      const text = (this.takes.get(take)?.text ?? "") + piece;
      this.takes.set(take, { passage, text });
      desk.text.grow(passage, text);
      expect(desk.text.textOf(passage)).toBe(text);
    }
    const text = this.takes.get(take)?.text ?? "";
    desk.text.commit(passage);
    for (const shown of seen) this.#did(shown);
    if (text === "") expect(desk.shown).toEqual(seen.at(-1) ?? this.past[this.at]);
    else {
      expect(desk.doc).toBe(twin.doc.slice(0, from) + text + twin.doc.slice(to));
      expect(desk.text.textOf(passage)).toBe(text);
      if (cut !== null && edits.length === 0) {
        expect(desk.text.textOf(cut.passage.id)).toBe(cut.head);
        expect(desk.text.range(cut.passage.id)?.take).toBe(head);
      }
      this.#did(desk.shown);
    }
    this.#untouched(others, [...touched]);
  }

  /** What holds after any step. */
  check(): void {
    const { desk } = this;
    let end = 0;
    for (const { from, to, id, take } of desk.ranges) {
      expect(from).toBeGreaterThanOrEqual(end);
      expect(to).toBeGreaterThan(from);
      end = to;
      expect(this.takes.get(take)?.passage).toBe(id);
    }
    expect(end).toBeLessThanOrEqual(desk.doc.length);
    expect(new Set(desk.ranges.map(({ id }) => id)).size).toBe(desk.ranges.length);
    expect(desk.state.field(writing)).toBeNull();
    expect(desk.state.field(pinned)).toBeNull();
    expect(undoDepth(desk.state)).toBe(this.at);
    expect(redoDepth(desk.state)).toBe(this.past.length - 1 - this.at);
  }
}

const range = (id: string, from: number, to: number): PassageRange => ({ id, take: id, from, to });

describe("a manuscript", () => {
  it("agrees with its passages, takes and history after anything a writer does", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (all) => {
        const writer = new Writer();
        for (const one of all) {
          writer.do(one);
          writer.check();
        }
        const end = writer.desk.shown;
        const depth = writer.at;
        while (writer.at > 0) writer.back();
        expect(writer.desk.doc).toBe("Once there was a door.\n\nIt was shut. ");
        expect(writer.desk.ranges).toEqual([]);
        while (writer.at < depth) writer.forth();
        expect(writer.desk.shown).toEqual(end);
      }),
      { numRuns: Number(process.env["FC_RUNS"] ?? 1000) },
    );
  }, 600_000);

  it("is whole again after a generation inside a passage is undone", () => {
    const desk = new Desk("Once", [{ id: "p", take: "1", from: 0, to: 4 }]);
    desk.edit(4, 4, " upon a time");
    desk.text.begin("q", "2", "", 2, { head: "1a" });
    desk.text.grow("q", "!!");
    desk.text.commit("q");
    expect(desk.doc).toBe("On!!ce upon a time");
    expect(desk.ranges).toEqual([
      { id: "p", take: "1a", from: 0, to: 2 },
      { id: "q", take: "2", from: 2, to: 4 },
    ]);
    desk.undo();
    expect(desk.shown).toEqual({ doc: "Once upon a time", ranges: [{ id: "p", take: "1", from: 0, to: 4 }] });
    desk.text.put("p", "1", "Once");
    expect(desk.doc).toBe("Once upon a time");
  });

  it("takes the writer's spaces before a generation in its place, and gives them back with the undo", () => {
    const desk = new Desk("They walked to the  ");
    desk.text.begin("p", "1", "", desk.doc.length);
    desk.text.grow("p", " top of the hill");
    desk.text.commit("p");
    expect(desk.doc).toBe("They walked to the top of the hill");
    desk.undo();
    expect(desk.doc).toBe("They walked to the  ");
    // A run that gives nothing leaves all as it was.
    desk.text.begin("p", "2", "", desk.doc.length);
    desk.text.commit("p");
    expect(desk.doc).toBe("They walked to the  ");
  });

  it("cuts a passage whose last space makes way, also where the writer has typed another after it", () => {
    const desk = new Desk("Once  ", [range("p", 0, 5)]);
    expect(desk.text.cutAt(6)?.head).toBe("Once");
    desk.text.begin("q", "2", " upon", 6, { head: "1a" });
    desk.text.commit("q");
    expect(desk.shown).toEqual({
      doc: "Once upon",
      ranges: [
        { id: "p", take: "1a", from: 0, to: 4 },
        { ...range("q", 4, 9), take: "2" },
      ],
    });
    desk.undo();
    expect(desk.shown).toEqual({ doc: "Once  ", ranges: [range("p", 0, 5)] });
  });

  it("puts a take whose prompt ended with a space behind that space, and any other without it", () => {
    const desk = new Desk("to the 10th", [{ id: "p", take: "1", from: 7, to: 11 }]);
    desk.text.put("p", "2", " top", "");
    expect(desk.doc).toBe("to the top");
    desk.text.put("p", "1", "10th", " ");
    expect(desk.doc).toBe("to the 10th");
    expect(desk.ranges).toEqual([{ id: "p", take: "1", from: 7, to: 11 }]);
    desk.undo();
    desk.undo();
    expect(desk.doc).toBe("to the 10th");
  });

  it("begins a passage where its place has gone while the server was asked", () => {
    const desk = new Desk("One. Two.");
    desk.text.pin(4);
    desk.edit(0, 0, "Zero. ");
    desk.edit(10, 10, "!");
    desk.text.begin("p", "1", " Half.", desk.state.field(pinned));
    desk.text.commit("p");
    expect(desk.doc).toBe("Zero. One. Half.! Two.");
  });

  it("leaves out stored places that overlap or are not there", () => {
    const desk = new Desk("abcdef", [range("a", 0, 3), range("b", 2, 4), range("c", 3, 3), range("d", 4, 9), range("e", 4, 6)]);
    expect(desk.ranges.map(({ id }) => id)).toEqual(["a", "e"]);
    expect(passageAround(desk.state, 1)?.id).toBe("a");
  });
});
