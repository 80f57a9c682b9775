// Accessibility: assistive technology, keyboards, phones, dark mode.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { type Page } from "@playwright/test";
import { Desk, expect, test } from "./desk";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Found {
  violations: {
    id: string;
    help: string;
    nodes: { target: unknown; failureSummary?: string }[];
  }[];
}

async function sound(page: Page): Promise<void> {
  await page.evaluate(axe);
  const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as Found;
  expect(
    found.violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}\n${nodes.map(({ target, failureSummary }) => `${JSON.stringify(target)} ${failureSummary ?? ""}`).join("\n")}`,
    ),
  ).toEqual([]);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`no accessibility violations in any state, ${colorScheme}`, async ({ browser, server }) => {
    const context = await browser.newContext({ colorScheme });
    const desk = await Desk.open(context, server.url);
    await sound(desk.page);
    await desk.set({ Length: "8" });
    await desk.generate();
    await desk.verified();
    await desk.page.keyboard.press("Alt+n");
    await expect(desk.line()).toContainText("take 2 of 2");
    await desk.verified();
    await desk.more("Replay here");
    await sound(desk.page);
    await desk.set({ Seed: "3" });
    await expect(desk.page.locator("[data-preview]")).toBeVisible();
    await desk.set({ Temperature: "warm", "Min-p": "0.05" });
    await sound(desk.page);
    await desk.set({ "Min-p": "a little", Repetition: "1.1" });
    await sound(desk.page);
    await desk.button("Why this word?").click();
    await expect(desk.page.locator("[data-why]")).toBeVisible();
    await sound(desk.page);
    await desk.button("Stories").click();
    await sound(desk.page);
    // A second passage, so that the first shows that it has more takes; and an error.
    await desk.page.keyboard.press("Escape");
    await desk.set({ Temperature: "0.8", "Min-p": "0" });
    await desk.generate();
    await desk.verified();
    await expect(desk.page.locator(".qm-several").first()).toBeVisible();
    await context.setOffline(true);
    await expect(desk.page.locator(".server")).toContainText("Offline");
    await sound(desk.page);
    await context.close();
  });
}

test("on a phone nothing is wider than the screen, and the settings are a sheet below the text", async ({ browser, server }) => {
  const context = await browser.newContext({
    viewport: { width: 390, height: 780 },
    hasTouch: true,
    isMobile: true,
  });
  const desk = await Desk.open(context, server.url);
  const fits = (): Promise<boolean> => desk.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  expect(await fits()).toBe(true);
  await expect(desk.page.getByLabel("Temperature", { exact: true })).toBeHidden();
  // A seed whose tokens looked at below are words: a line break has nothing to mark.
  await desk.button("Settings").tap();
  await desk.set({ Seed: "42" });
  await desk.button("Settings").tap();
  await desk.page.locator("#generate").tap();
  await desk.verified();
  expect(await fits()).toBe(true);
  await desk.button("Settings").tap();
  await desk.set({ Seed: "77" });
  await expect(desk.page.locator("[data-preview]")).toBeInViewport();
  await expect(desk.page.locator(".qm-instead")).toBeInViewport();
  await expect(desk.button("Continue from there")).toBeInViewport();
  expect(await fits()).toBe(true);
  await sound(desk.page);

  // “Why this word?” is a sheet too, and the word it speaks of stays in sight.
  await desk.button("Settings").tap();
  await desk.button("Why this word?").tap();
  await expect(desk.page.locator("[data-why]")).toBeInViewport();
  await expect(desk.page.locator(".qm-asked")).toBeInViewport();
  for (let n = 0; n < 12; n++) await desk.button("Previous token").tap();
  await expect(desk.page.locator("[data-why]")).toContainText("token 28 of 40");
  await expect(desk.page.locator(".qm-asked")).toBeInViewport();
  expect(await fits()).toBe(true);
  await sound(desk.page);
  await context.close();
});

test("with the keyboard alone: generate, step through takes, set, preview, copy the seed, and the focus stays", async ({
  context,
  server,
}) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const desk = await Desk.open(context, server.url);
  const focused = (): Promise<string | null> =>
    desk.page.evaluate(() => {
      const held = document.activeElement?.shadowRoot?.activeElement ?? document.activeElement;
      return held?.getAttribute("aria-label") ?? held?.id ?? null;
    });
  expect(await focused()).toBe("Your story");
  await desk.page.keyboard.press("Alt+s");
  await expect.poll(focused).toBe("set-temperature");
  await desk.page.keyboard.press("Control+a");
  await desk.page.keyboard.type("0.9");
  await desk.page.keyboard.press("Control+Enter");
  await desk.verified();
  expect(await focused()).toBe("set-temperature");
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  expect(await focused()).toBe("set-temperature");
  await desk.page.keyboard.press("Alt+,");
  await expect(desk.line()).toContainText("take 1 of 2");

  // Buttons under the text keep the focus when what is around them is drawn anew.
  await desk.button("Take 2").focus();
  await desk.page.keyboard.press("Enter");
  await expect(desk.line()).toContainText("take 2 of 2");
  expect(await focused()).toBe("Take 2");
  const seed = desk.line().getByRole("button", { name: /^seed / });
  await seed.focus();
  await desk.page.keyboard.press("Enter");
  const copied = await desk.page.evaluate(() => navigator.clipboard.readText());
  await expect(seed).toHaveText(`seed ${copied}`);
});

test("the focus leaves the text and stays away, also from where a line wraps", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.replaceAll("The rain had not stopped for nine days when they opened the gate. ".repeat(6).trim());
  const focused = (): Promise<string> => desk.page.evaluate(() => document.activeElement?.id ?? "");
  for (const edge of ["End", "Home"]) {
    await desk.page.keyboard.press("Control+Home");
    await desk.page.keyboard.press("ArrowDown");
    await desk.page.keyboard.press(edge);
    await desk.page.keyboard.press("Alt+s");
    await expect(desk.page.getByLabel("Temperature", { exact: true })).toBeFocused();
    // What the editor does in the frames after it lost the focus must not fetch it back.
    await desk.page.evaluate(async () => {
      for (let frame = 0; frame < 5; frame++) await new Promise(requestAnimationFrame);
    });
    expect(await focused()).toBe("set-temperature");
    await desk.paper().focus();
  }
});

test("a screen reader hears sentences, not letters, and the end", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const said = desk.page.getByRole("status");
  await desk.set({ Length: "20" });
  await desk.generate();
  await desk.verified();
  await expect(said).toContainText("Writing.");
  await expect(said).toContainText("Done: 20 tokens, verified.");
  expect(await said.locator("p").count()).toBeLessThan(9);
});

test("errors say what to do: nothing before the cursor, and a server that is not there", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.replaceAll("");
  await desk.page.keyboard.press("Control+a");
  await desk.page.keyboard.press("Delete");
  await desk.page.keyboard.press("Control+Enter");
  await expect(desk.page.locator(".notice")).toContainText("nothing before the cursor");
  await expect(desk.page.locator(".notice")).toContainText("prompt_empty");
  await desk.page.keyboard.type("A beginning");
  await desk.page.route("**/api/**", (route) => route.abort());
  await desk.page.keyboard.press("Control+Enter");
  await expect(desk.page.locator(".notice")).toContainText("cannot be reached");
  expect(await desk.text()).toBe("A beginning");
});

test("the cursor stays on the screen when writing ends, and words do not move when the cursor comes and goes", async ({
  browser,
  server,
}) => {
  const context = await browser.newContext({ viewport: { width: 640, height: 400 } });
  const desk = await Desk.open(context, server.url);
  const lines = Array.from({ length: 30 }, (_, n) => `Line ${n} of a story that is longer than the screen.`);
  await desk.replaceAll(`${lines.join("\n")}\nAnd then`);
  await desk.button("Settings").click();
  await desk.set({ Seed: "5", Length: "12" });
  await desk.button("Settings").click();
  const scroller = desk.page.locator(".cm-scroller");
  const top = (): Promise<number> => scroller.evaluate((one) => one.scrollTop);
  await desk.generate();
  await desk.verified();
  expect(await top()).toBeGreaterThan(200);
  const caret = (): Promise<boolean> =>
    desk.paper().evaluate((paper) => {
      const range = (
        (paper.getRootNode() as unknown as { getSelection?: () => Selection }).getSelection?.() ?? getSelection()
      )?.getRangeAt(0);
      const spot = range?.getClientRects()[0] ?? (range?.startContainer as Element | undefined)?.getBoundingClientRect();
      const room = document.getElementById("paper")?.getBoundingClientRect();
      return spot !== undefined && room !== undefined && spot.top >= room.top && spot.bottom <= room.bottom + 1;
    });
  await expect.poll(caret).toBe(true);
  await desk.button("Settings").click();
  await desk.set({ Seed: "6" });
  await desk.button("Settings").click();
  await desk.paper().focus();
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  await expect.poll(caret).toBe(true);

  // Text after the passage stays where it is when the cursor enters it and leaves it.
  await desk.page.keyboard.press("Control+End");
  await desk.page.keyboard.insertText("\nThe last line.");
  const last = desk.page.locator(".cm-line", { hasText: "The last line." });
  // Both at once: what is scrolled between two looks would count as moved.
  const place = (): Promise<number> =>
    last.evaluate((line) => line.getBoundingClientRect().y + (line.closest(".cm-scroller")?.scrollTop ?? NaN));
  const outside = await place();
  for (let n = 0; n < 18; n++) await desk.page.keyboard.press("ArrowLeft");
  await expect(desk.line()).toContainText("take 2 of 2");
  expect(await place()).toBe(outside);
  await desk.page.keyboard.press("Control+Home");
  await desk.page.keyboard.press("Control+End");
  await expect.poll(place).toBe(outside);
  await context.close();
});

test("search and print reach the whole story, not only what is drawn", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const lines = Array.from({ length: 400 }, (_, n) => `Line ${n} of a long story.`);
  await desk.replaceAll(`The needle is here.\n${lines.join("\n")}`);
  await expect(desk.page.locator(".cm-line", { hasText: "needle" })).toHaveCount(0);
  // From anywhere on the page.
  await desk.page.getByLabel("Seed", { exact: true }).focus();
  await desk.page.keyboard.press("Control+f");
  await desk.page.keyboard.type("needle");
  await desk.page.keyboard.press("Enter");
  await expect(desk.page.locator(".cm-searchMatch-selected")).toBeInViewport();
  await sound(desk.page);
  await desk.page.keyboard.press("Escape");
  await expect(desk.page.locator(".cm-search")).toHaveCount(0);
  await expect(desk.paper()).toBeFocused();

  const pdf = (await desk.page.pdf()).toString("latin1");
  expect((pdf.match(/\/Type\s*\/Page\b/g) ?? []).length).toBeGreaterThan(5);
  await expect(desk.page.locator("#print p")).toHaveCount(0);
});

test("in high contrast the active take, passages and the asked word are told apart; no button is part of the text", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.page.emulateMedia({ forcedColors: "active" });
  await desk.set({ Length: "6" });
  await desk.generate();
  await desk.verified();
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  const look = (selector: string): Promise<string> =>
    desk.page
      .locator(selector)
      .first()
      .evaluate((one) => {
        const { backgroundColor, color, textDecoration, borderColor } = getComputedStyle(one);
        return [backgroundColor, color, textDecoration, borderColor].join("; ");
      });
  expect(await look('.pill[aria-pressed="true"]')).not.toBe(await look('.pill[aria-pressed="false"]'));
  const active = await look(".qm-active");
  expect(active).not.toBe(await look(".cm-line"));
  await desk.button("Why this word?").click();
  await expect(desk.page.locator("[data-why]")).toBeVisible();
  expect(await look(".qm-asked")).not.toBe(active);
  await desk.page.keyboard.press("Escape");
  await desk.page.keyboard.press("Control+Home");
  await desk.generate();
  await desk.verified();
  expect(await look(".qm-passage:not(.qm-active)")).not.toBe(await look(".qm-active"));
  expect(await look(".qm-passage:not(.qm-active)")).not.toBe(await look(".cm-line"));
  await expect(desk.paper().locator("button, summary, input, [role=group]")).toHaveCount(0);
});
