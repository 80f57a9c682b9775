// The page's statements about a passage match its current text and its prompt.
import { Desk, expect, reference, test } from "./desk";

test("a verdict says how far it goes: what comes after it was not looked at", async ({ context, slow }) => {
  const desk = await Desk.open(context, slow.url);
  await desk.set({ Seed: "7", Length: "24" });
  await desk.generate();
  await desk.reaches(6);
  await slow.kill();
  await expect(desk.page.locator("[data-cut]")).toContainText("Connection lost");
  await desk.more("Replay here");
  const replay = desk.page.locator("[data-replay]");
  await expect(replay).toHaveText(/^replayed here: (\d+) of \1 tokens equal$/);
  const [, count] = /(\d+) of/.exec((await replay.textContent()) ?? "") ?? [];
  await slow.start();
  await desk.verified();
  await expect(desk.line()).toContainText("24 tokens");
  await expect(replay).toHaveText(`replayed here up to token ${count} of 24`);
  await desk.more("Replay here");
  await expect(replay).toHaveText("replayed here: 24 of 24 tokens equal");

  // Also for an edited text, and for one whose preceding text has changed.
  await desk.toEnd();
  await desk.page.keyboard.press("ArrowLeft");
  await desk.page.keyboard.insertText("zzz");
  await expect(desk.line()).toContainText("edited by you");
  await expect(desk.verdict()).toHaveText("verified, before your edits");
  await expect(replay).toHaveText("replayed here: 24 of 24 tokens equal, before your edits");
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await expect(desk.verdict()).toHaveText("verified");
  await expect(desk.page.locator("[data-elsewhere]")).toHaveCount(0);
  await desk.page.keyboard.press("Control+Home");
  await desk.page.keyboard.insertText("Long ago. ");
  await expect(desk.page.locator("[data-elsewhere]")).toHaveText("after another beginning");
  await desk.button("Regenerate").click();
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 24 of 24 tokens, to the beginning as it was");
  await desk.verdict().focus();
  await desk.page.keyboard.press("Enter");
  await expect(desk.page.locator("[data-about]")).toContainText("The server recomputed all 24 tokens at");
  await expect(desk.page.locator("[data-about]")).toContainText("the take answers the beginning as it was");
  await desk.page.keyboard.press("Escape");
  await expect(desk.page.locator("[data-about]")).toBeHidden();
});

test("a space before the cursor makes no difference to what the model writes", async ({ browser, context, server }) => {
  const settings = { Temperature: "0", Length: "8" };
  const without = await reference(browser, server.url, settings, "They walked to the");
  const desk = await Desk.open(context, server.url);
  await desk.replaceAll("They walked to the  ");
  await desk.set(settings);
  await desk.generate();
  await desk.verified();
  expect(await desk.text()).toBe(without);
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe("They walked to the  ");
});

test("of a long story the page marks where the model begins to read, and that is where it does", async ({ context, server }) => {
  const page = await context.newPage();
  await page.route("**/api/model", async (route) => {
    const answer = await route.fetch();
    const model = (await answer.json()) as { limits: { prompt_tokens: number } };
    await route.fulfill({ response: answer, json: { ...model, limits: { ...model.limits, prompt_tokens: 60 } } });
  });
  await page.goto(server.url);
  await expect(page.locator("#generate")).toBeEnabled({ timeout: 120_000 });
  const paragraphs = Array.from({ length: 12 }, (_, n) => `Paragraph ${n} is here, and it says what it says.`);
  await page.getByRole("textbox", { name: "Your story" }).focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(paragraphs.join("\n\n"));
  const mark = page.locator(".qm-reads");
  await expect(mark).toBeVisible();
  await expect(page.locator("[data-reads]")).toBeVisible();
  const marked = await mark.textContent();
  const asked = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/runs"));
  await page.keyboard.press("Control+Enter");
  const { prompt } = (await asked).postDataJSON() as { prompt: string };
  expect(prompt.startsWith(marked ?? "?")).toBe(true);
  expect(prompt.length).toBeLessThan(paragraphs.join("\n\n").length);
  // A short one has no mark.
  await page.keyboard.press("Escape");
  await expect(page.locator("#generate")).toBeEnabled();
  await page.getByRole("textbox", { name: "Your story" }).focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("Short.");
  await expect(mark).toHaveCount(0);
});

test("a request that never answers is ended by Escape and by Stop, and a new story can be begun", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Length: "6" });
  const opening = await desk.text();
  const never = (): Promise<void> => new Promise(() => {});
  await desk.page.route("**/api/runs", never);
  await desk.generate();
  await expect(desk.progress()).toContainText("Asking the server");
  await desk.page.keyboard.press("Escape");
  await expect(desk.page.locator(".notice")).toContainText("Stopped before anything was written");
  await desk.generate();
  await desk.page.locator("#stop").click();
  await expect(desk.page.locator("#generate")).toBeVisible();
  expect(await desk.text()).toBe(opening);
  await desk.generate();
  await desk.button("Stories").click();
  await desk.button("New story").click();
  await expect.poll(() => desk.text()).toBe("");
  await desk.page.unroute("**/api/runs");

  // The check of what was written, and a stop that the server does not hear.
  await desk.page.route("**/verify", never);
  await desk.page.keyboard.insertText("The river was");
  await desk.generate();
  await expect(desk.progress()).toContainText("recompute");
  await desk.page.keyboard.press("Escape");
  await expect(desk.page.locator("#generate")).toBeVisible();
  await expect(desk.verdict()).toHaveText("not yet verified");
  await expect(desk.line()).toContainText("40 tokens");
});

test("Stop ends the writing although the server does not answer it", async ({ context, slow }) => {
  const desk = await Desk.open(context, slow.url);
  await desk.set({ Length: "60" });
  await desk.page.route("**/stop", () => new Promise(() => {}));
  await desk.generate();
  await desk.reaches(3);
  await desk.page.keyboard.press("Escape");
  await expect(desk.progress()).toContainText("Stopping");
  await desk.page.keyboard.press("Escape");
  await expect(desk.page.locator("#generate")).toBeVisible();
  await expect(desk.page.locator("[data-cut]")).toContainText("kept up");
});

test("Generate refuses a setting it cannot take, says which, and goes there", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const focused = (): Promise<string | undefined> => desk.page.evaluate(() => document.activeElement?.id);
  const asked: string[] = [];
  desk.page.on("request", (request) => {
    if (request.method() === "POST") asked.push(request.url());
  });
  await desk.set({ Temperature: "warm", "Min-p": "a little" });
  await desk.generate();
  await expect(desk.page.locator(".notice")).toContainText("Temperature cannot be “warm”");
  await expect.poll(focused).toBe("set-temperature");
  await desk.set({ Temperature: "0.8" });
  await desk.page.locator("details.further > summary").click();
  await desk.page.locator("#generate").click();
  await expect(desk.page.locator(".notice")).toContainText("Min-p cannot be “a little”");
  await expect.poll(focused).toBe("set-min_p");
  expect(asked).toEqual([]);
});

test("one place is one passage: generated, undone and generated again it has two takes; a used seed is not replaced in silence", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  const opening = await desk.text();
  await desk.set({ Length: "6" });
  await desk.generate();
  await desk.verified();
  const first = await desk.text();
  await expect(desk.page.locator("[data-last-seed]")).toContainText("the last one");
  const seed = await desk.page.getByLabel("Seed", { exact: true }).inputValue();
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe(opening);
  await desk.generate();
  await desk.verified();
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.button("Take 1").click();
  await expect.poll(() => desk.text()).toBe(first);
  await expect(desk.page.getByText("no longer in the text")).toHaveCount(0);

  // The seed of take 1, fixed: it would give take 1 again.
  await desk.set({ Seed: seed });
  await desk.page.keyboard.press("Escape");
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.page.locator(".notice")).toContainText(`Seed ${seed} with these settings gave take 1`);
  await expect.poll(() => desk.page.evaluate(() => document.activeElement?.id)).toBe("set-seed");
  await expect(desk.line()).toContainText("take 1 of 2");
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe(opening);
  await desk.generate();
  await expect(desk.page.locator(".notice")).toContainText("it is back");
  expect(await desk.text()).toBe(first);
});
