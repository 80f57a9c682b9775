// Processors as a writer sets them, and as they come from elsewhere.
import { readFile } from "node:fs/promises";
import { Desk, expect, reference, test } from "./desk";

test("a run with repetition and min-p: the same text elsewhere and again, verified, previewed, carried on", async ({
  browser,
  context,
  server,
}) => {
  const settings = { Seed: "41", Length: "16", Repetition: "1.1", "Min-p": "0.05" };
  const desk = await Desk.open(context, server.url);
  await expect(desk.page.getByLabel("Min-p", { exact: true })).toBeHidden();
  const asked = desk.page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/runs"));
  await desk.set(settings);
  await desk.generate();
  expect(((await asked).postDataJSON() as { settings: unknown }).settings).toEqual({
    temperature: 0.8,
    top_k: 50,
    top_p: 0.95,
    processors: [
      { name: "repetition_penalty", version: 1, penalty: 1.1, window: 256 },
      { name: "min_p", version: 1, p: 0.05 },
    ],
  });
  await desk.verified();
  const text = await desk.text();
  await expect(desk.line()).toContainText("T 0.8, top-k 50, top-p 0.95, repetition 1.1, min-p 0.05");
  expect(await reference(browser, server.url, settings)).toBe(text);

  await desk.page.keyboard.press("Alt+r");
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 16 of 16 tokens");
  await desk.verified();
  expect(await desk.text()).toBe(text);

  // Whole frames answer any settings, so a preview never runs out.
  await desk.set({ "Min-p": "0", Repetition: "1", "Top-k": "0", Temperature: "2" });
  await expect(desk.page.locator("[data-preview]")).toContainText(/token \d+ would be/);
  await desk.button("Continue from there").click();
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  await expect(desk.line()).toContainText("T 2, top-k off, top-p 0.95 ");

  // The settings of the first take come back whole, and stay over a reload.
  await desk.button("Take 1").click();
  await desk.more("Use its settings");
  await desk.page.reload();
  await desk.idle();
  await expect(desk.page.locator("details.further summary")).toContainText("repetition 1.1, min-p 0.05");
  await desk.button("Take 1").click();
  await desk.button("Regenerate").click();
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 16 of 16 tokens");
});

test("avoiding loops and surprise: verified and replayed", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "3", Length: "12", "Avoid loops": "0.8", Surprise: "0.5" });
  await desk.generate();
  await desk.verified();
  await expect(desk.line()).toContainText("avoid loops 0.8, surprise 0.5");
  await desk.more("Replay here");
  await expect(desk.page.locator("[data-replay]")).toHaveText("replayed here: 12 of 12 tokens equal");
});

interface Saved {
  start: { settings: { processors?: unknown } };
}

test("a record with processors of other makers goes through whole; with wrong ones it is refused, and the page goes on", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "8", Length: "5", "Min-p": "0.05" });
  await desk.generate();
  await desk.verified();
  const saved = desk.page.waitForEvent("download");
  await desk.more("Save record");
  const file = await readFile(await (await saved).path(), "utf8");
  const text = await desk.text();
  const open = async (processors: unknown): Promise<void> => {
    const record = JSON.parse(file) as Saved;
    record.start.settings.processors = processors;
    await desk.button("Stories").click();
    const buffer = Buffer.from(JSON.stringify(record));
    await desk.page.locator("#stories input[type=file]").setInputFiles({ name: "r.json", mimeType: "application/json", buffer });
  };
  const minP = { name: "min_p", version: 1, p: 0.05 };
  const notice = desk.page.locator("#bar .notice");
  for (const wrong of [
    "min_p",
    [null],
    [{ name: "min_p", version: 1, p: 7 }],
    [{ name: "min_p", version: 2, p: 0.05 }],
    [{ name: "__proto__", version: 1 }],
    [minP, minP],
    [{ ...minP, extra: 1 }],
    [{ name: "bad_words", version: 1, words: [[]] }],
    [{ name: "repetition_penalty", version: 1, penalty: -1 }],
  ]) {
    await open(wrong);
    await expect(notice).toContainText("not_a_record");
    await desk.page.keyboard.press("Escape");
    await desk.button("Dismiss this message").click();
    expect(await desk.text()).toBe(text);
  }

  // Others than this page can turn: named, kept, and taken out only when asked.
  await open([{ name: "typical", version: 2, p: 1 }, minP]);
  await expect(desk.page.locator("[data-replay]")).toContainText("replayed here: 5 of 5 tokens equal");
  await expect(desk.line()).toContainText("typical (p 1), min-p 0.05");
  await desk.more("Use its settings");
  await desk.set({ Repetition: "1.2" });
  await expect(desk.page.locator("[data-foreign]")).toContainText("typical (p 1)");
  await desk.page.keyboard.press("Escape");
  await desk.button("New take").click();
  await expect(desk.line()).toContainText("repetition 1.2, typical (p 1), min-p 0.05");
  await desk.verified();
  await desk.button("Take out").click();
  await expect(desk.page.locator("[data-foreign]")).toHaveCount(0);
  await expect(desk.page.locator("details.further summary")).toContainText("repetition 1.2, min-p 0.05");
});

test("a kept take whose processors were tampered with is left out, and the story opens", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "8", Length: "5" });
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  // From beside the page, which would put its own settings back on its way out.
  await desk.page.goto(`${server.url}quill.svg`);
  await desk.page.evaluate(async () => {
    const opened = indexedDB.open("quillmate");
    await new Promise((done) => opened.addEventListener("success", done));
    const all = opened.result.transaction(["takes", "stories"], "readwrite");
    for (const name of ["takes", "stories"]) {
      const asked = all.objectStore(name).getAll();
      asked.addEventListener("success", () => {
        for (const one of asked.result as { start?: { settings: object }; settings: object }[]) {
          const owner = one.start ?? one;
          owner.settings = { ...owner.settings, processors: "everything" };
          all.objectStore(name).put(one);
        }
      });
    }
    await new Promise((done) => all.addEventListener("complete", done));
    opened.result.close();
  });
  await desk.page.goto(server.url);
  await desk.idle();
  await expect(desk.page.locator("#bar .notice")).toContainText("kept_damaged");
  expect(await desk.text()).toBe(text);
  await desk.set({ Length: "5" });
  await desk.generate();
  await desk.verified();
});
