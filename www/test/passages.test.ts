import { history, redo, undo } from "@codemirror/commands";
import { EditorState, type TransactionSpec } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { lift, passageAt, passages, place, write, writing } from "../src/passages";

class Text {
  state = EditorState.create({
    doc: "Once there was a door.",
    extensions: [EditorState.lineSeparator.of("\n"), writing, passages, history({ newGroupDelay: 0 })],
  });
  do(spec: TransactionSpec): this {
    this.state = this.state.update(spec).state;
    return this;
  }
  undo(): this {
    undo({ state: this.state, dispatch: (tr) => (this.state = tr.state) });
    return this;
  }
  redo(): this {
    redo({ state: this.state, dispatch: (tr) => (this.state = tr.state) });
    return this;
  }
  get shown(): string[] {
    return this.state.field(passages).map(({ id, from, to, take }) => `${id}/${take}: ${this.state.sliceDoc(from, to)}`);
  }
}

const withPassage = (): Text => new Text().do({ effects: place.of({ id: "p", take: "1", from: 5, to: 10 }) });

describe("a passage", () => {
  it("moves with the text, and leaves out what is typed at its ends", () => {
    const text = withPassage();
    expect(text.shown).toEqual(["p/1: there"]);
    text
      .do({ changes: { from: 0, insert: "Yes. " } })
      .do({ changes: { from: 10, insert: "X" } })
      .do({ changes: { from: 16, insert: "Y" } });
    expect(text.state.doc.toString()).toBe("Yes. Once XthereY was a door.");
    expect(text.shown).toEqual(["p/1: there"]);
  });

  it("takes in what is typed inside", () => {
    expect(withPassage().do({ changes: { from: 7, insert: "--" } }).shown).toEqual(["p/1: th--ere"]);
  });

  it("goes when its text goes, and comes back with an undo", () => {
    const text = withPassage().do({ changes: { from: 3, to: 12 } });
    expect(text.shown).toEqual([]);
    expect(text.undo().shown).toEqual(["p/1: there"]);
    expect(text.redo().shown).toEqual([]);
  });

  it("comes back when everything was deleted, also with edits before and after", () => {
    const text = withPassage()
      .do({ changes: { from: 0, insert: "A" } })
      .do({ changes: { from: 0, to: 23 } })
      .do({ changes: { from: 0, insert: "new" } });
    expect(text.undo().undo().shown).toEqual(["p/1: there"]);
    expect(text.undo().shown).toEqual(["p/1: there"]);
    expect(text.redo().redo().redo().shown).toEqual([]);
  });

  it("gets its other take back with an undo, of whatever length", () => {
    const text = withPassage()
      .do({ changes: { from: 5, to: 10, insert: "behind the hill" }, effects: place.of({ id: "p", take: "2", from: 5, to: 20 }) })
      .do({ changes: { from: 5, to: 20, insert: "so" }, effects: place.of({ id: "p", take: "3", from: 5, to: 7 }) });
    expect(text.shown).toEqual(["p/3: so"]);
    expect(text.undo().shown).toEqual(["p/2: behind the hill"]);
    expect(text.undo().shown).toEqual(["p/1: there"]);
    expect(text.redo().redo().shown).toEqual(["p/3: so"]);
  });

  it("that was new is lifted by an undo", () => {
    const text = new Text().do({
      changes: { from: 22, insert: " It" },
      effects: place.of({ id: "n", take: "1", from: 22, to: 25 }),
    });
    expect(text.undo().shown).toEqual([]);
    expect(text.redo().shown).toEqual(["n/1:  It"]);
    expect(text.do({ effects: lift.of("n") }).shown).toEqual([]);
  });

  it("may be empty only while it is written", () => {
    const text = new Text().do({ effects: [write.of("w"), place.of({ id: "w", take: "1", from: 4, to: 4 })] });
    expect(text.shown).toEqual(["w/1: "]);
    expect(text.do({ effects: write.of(null) }).shown).toEqual([]);
  });

  it("is found by the cursor; of two that meet, the one before it", () => {
    const text = withPassage().do({ effects: place.of({ id: "q", take: "1", from: 10, to: 14 }) });
    expect(passageAt(text.state, 10)?.id).toBe("p");
    expect(passageAt(text.state, 11)?.id).toBe("q");
    expect(passageAt(text.state, 0)).toBeUndefined();
  });
});
