// “Why this word?”, and another word instead.
import { Desk, expect, test } from "./desk";

test("why this word: place, chance, draw and stages, for the word at the cursor, offline too", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const opening = await desk.text();
  await desk.set({ Seed: "41", Length: "16", "Min-p": "0.02" });
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  const why = desk.page.getByRole("region", { name: "Why this word" });
  await expect(why).toBeHidden();
  await context.setOffline(true);
  await expect(desk.page.locator(".server")).toContainText("Offline");

  await desk.paper().focus();
  await desk.page.keyboard.press("Alt+w");
  await expect(why.locator("[data-why]")).toHaveText(/^token 16 of 16: (over |under )?[\d.]+ %, .+ left$/);
  await expect(why).toContainText(/The draw was 0\.\d{4}\./);
  await expect(why.locator(".chosen")).toHaveCount(1);
  const stages = why.locator(".stages li");
  await expect(stages.first()).toHaveText("49,152 words");
  await expect(stages.nth(1)).toHaveText(/^min-p 0\.02: \d[\d,]* left$/);
  await expect(stages.last()).toHaveText(/^top-p 0\.95/);
  await expect(desk.page.getByRole("status")).toContainText("token 16 of 16");

  // It follows the cursor, which stays in the text, and names the word there.
  const end = opening.length;
  await desk.page.keyboard.press("Control+Home");
  await expect(why).toBeHidden();
  for (let at = 0; at <= end; at++) await desk.page.keyboard.press("ArrowRight");
  await desk.page.keyboard.press("Alt+w");
  await expect(why.locator("[data-why]")).toContainText("token 1 of 16");
  const marked = await desk.page.locator(".qm-asked").textContent();
  expect(text.slice(end).startsWith(marked ?? "?")).toBe(true);
  await expect(why.getByRole("heading")).toHaveText(`“${(marked ?? "").replace(/^ /, "\u00a0")}”`);

  // The keyboard reaches into it, through it, and back.
  await desk.page.keyboard.press("Alt+w");
  await expect(why.getByRole("button", { name: "Previous token" })).toBeFocused();
  await why.getByRole("button", { name: "Next token" }).click();
  await expect(why.locator("[data-why]")).toContainText("token 2 of 16");
  await desk.page.keyboard.press("Escape");
  await expect(why).toBeHidden();
  await expect(desk.paper()).toBeFocused();

  // While it is open a click on a word asks about that word; writing on closes it, and the writer's own words have no reason.
  await desk.page.keyboard.press("Alt+w");
  await desk.page.keyboard.press("Control+End");
  await expect(why.locator("[data-why]")).toContainText("token 16 of 16");
  const word = await desk.page
    .locator(".qm-passage")
    .first()
    .evaluate((passage) => passage.getClientRects()[0]?.toJSON() as { x: number; y: number } | undefined);
  await desk.page.mouse.click((word?.x ?? 0) + 12, (word?.y ?? 0) + 8);
  await expect(why.locator("[data-why]")).toContainText("token 1 of 16");
  await expect(desk.paper()).toBeFocused();
  await desk.page.keyboard.press("Control+End");
  await expect(why.locator("[data-why]")).toContainText("token 16 of 16");
  await desk.page.keyboard.press("ArrowLeft");
  await desk.page.keyboard.type("zzz");
  await expect(why).toBeHidden();
  await desk.page.keyboard.press("Alt+w");
  await expect(why).toContainText("these words are yours");
  await expect(why.locator("[data-why]")).toHaveCount(0);
});

test("why this word, of a sparse frame and of a take without a draw", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "41", Length: "6" });
  await desk.generate();
  await desk.verified();
  await desk.button("Why this word?").click();
  const stages = desk.page.locator("#why .stages li");
  await expect(stages.first()).toHaveText("of 49,152 words, the 50 kept");
  await expect(stages.nth(1)).toHaveText("top-k 50");
  await expect(desk.page.locator("#why .words li")).not.toHaveCount(0);
  await desk.page.keyboard.press("Escape");
  await desk.set({ Temperature: "0", "Min-p": "0.1" });
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.line()).toContainText("T 0, always the likeliest word, min-p 0.1");
  await desk.verified();
  await desk.button("Why this word?").click();
  await expect(desk.page.locator("[data-why]")).toContainText("always the likeliest");
  await expect(desk.page.locator("#why")).toContainText("No draw: temperature is 0.");
});

test("take this word instead: what stands before stays, the word comes, the server goes on, and all of it again", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "41", Length: "12" });
  await desk.generate();
  await desk.verified();
  const first = await desk.text();
  await desk.button("Why this word?").click();
  const why = desk.page.locator("#why");
  // Back to a word that had others beside it, and not to the first.
  const other = why.getByRole("button", { name: /^Take “.*” instead$/ }).first();
  await desk.button("Previous token").click();
  await expect(why.locator("[data-why]")).toContainText("token 11 of 12");
  for (;;) {
    const at = /token (\d+) of 12/.exec((await why.locator("[data-why]").textContent()) ?? "")?.[1] ?? "";
    if ((await other.count()) > 0) break;
    await desk.button("Previous token").click();
    await expect(why.locator("[data-why]")).toContainText(`token ${Number(at) - 1} of 12`);
  }
  const word = (await other.textContent())?.trim().slice(1, -1).replaceAll("\u00a0", " ").replaceAll("↵", "\n") ?? "?";
  const marked = (await desk.page.locator(".qm-asked").allTextContents()).join("");
  await other.click();
  await expect(why).toBeHidden();
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  await expect(desk.line()).toContainText("seed 41");
  await expect(desk.line()).toContainText("from “");
  const second = await desk.text();
  const places = [...first].map((_, at) => at).filter((at) => first.startsWith(marked, at));
  expect(places.some((at) => second.startsWith(first.slice(0, at) + word))).toBe(true);

  // The words that stayed have the reasons they had; the chosen one says that it was chosen.
  await desk.button("Why this word?").click();
  const place = why.locator("[data-why]");
  const total = Number(/of (\d+)/.exec((await place.textContent()) ?? "")?.[1]);
  await expect(place).not.toContainText("as take");
  for (let token = total; token > 1; token--) {
    await expect(place).toContainText(`token ${token} of ${total}`);
    if ((await why.locator("[data-taken]").count()) > 0) break;
    await desk.button("Previous token").click();
    await expect(place).toContainText(`token ${token - 1} of ${total}`);
  }
  await expect(why.locator("[data-taken]")).toContainText("You took");
  await desk.button("Previous token").click();
  await expect(why.locator("[data-taken]")).toHaveCount(0);
  await expect(place).toContainText("as take 1 has it");
  await desk.page.keyboard.press("Escape");

  // It is a take like any other: asked about, previewed, regenerated, replayed, also after a reload.
  await desk.page.reload();
  await desk.idle();
  expect(await desk.text()).toBe(second);
  await desk.button("Regenerate").click();
  await expect(desk.page.locator("[data-again]")).toHaveText(/^same text, (\d+) of \1 tokens?$/);
  expect(await desk.text()).toBe(second);
  await desk.more("Replay here");
  await expect(desk.page.locator("[data-replay]")).toContainText("equal");
  await desk.button("Why this word?").click();
  const [, count] = /(\d+) of \1/.exec((await why.locator("[data-why]").textContent()) ?? "") ?? [];
  expect(Number(count)).toBeGreaterThan(0);
  await desk.page.keyboard.press("Escape");
  await desk.set({ Temperature: "2", "Top-p": "1" });
  await expect(desk.page.locator("[data-preview]")).toContainText("would be");
  const stays = (await desk.page.locator(".qm-leaves").allTextContents()).join("");
  await desk.button("Continue from there").click();
  await expect(desk.line()).toContainText("take 3 of 3");
  await desk.verified();
  const flat = (text: string): string => text.replaceAll("\n", "");
  expect(flat(await desk.text()).startsWith(flat(second).slice(0, flat(second).length - stays.length))).toBe(true);
  await desk.button("Take 1").click();
  await expect.poll(() => desk.text()).toBe(first);
});
