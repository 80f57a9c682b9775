// The promise: the same seed gives the same text, whatever happens in between.
import { Desk, expect, reference, test } from "./desk";

test("the first visit: an opening is there, one press writes on, and the server agrees", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const opening = await desk.text();
  expect(opening.length).toBeGreaterThan(50);
  await desk.page.locator("#generate").click();
  await desk.verified();
  const text = await desk.text();
  expect(text.startsWith(opening)).toBe(true);
  expect(text.length).toBeGreaterThan(opening.length);
  await expect(desk.line()).toContainText("take 1 of 1");
  await expect(desk.line()).toContainText("T 0.8, top-k 50, top-p 0.95");
  await expect(desk.line()).toContainText("40 tokens");
});

test("same seed twice: the same text in two browsers, and again on Regenerate", async ({ browser, context, server }) => {
  const settings = { Seed: "41", Length: "24" };
  const desk = await Desk.open(context, server.url);
  await desk.set(settings);
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  expect(await reference(browser, server.url, settings)).toBe(text);

  await desk.page.keyboard.press("Alt+r");
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 24 of 24 tokens");
  await desk.idle();
  expect(await desk.text()).toBe(text);
  await expect(desk.line()).toContainText("take 1 of 1");
});

test("the server is killed in mid-run and started again: nothing shown is lost, and the text ends the same", async ({
  browser,
  context,
  slow,
}) => {
  const settings = { Seed: "7", Length: "24" };
  const expected = await reference(browser, slow.url, settings);

  const desk = await Desk.open(context, slow.url);
  await desk.set(settings);
  await desk.generate();
  await desk.reaches(8);
  await slow.kill();
  const cut = desk.page.locator("[data-cut]");
  await expect(cut).toContainText(/Connection lost: kept up\s+to token \d+ of 24/);
  const kept = await desk.text();
  expect(expected.startsWith(kept)).toBe(true);
  await expect(desk.page.locator(".server")).toContainText("Offline");

  await slow.start();
  await desk.verified();
  await expect(cut).toHaveCount(0);
  expect(await desk.text()).toBe(expected);
});

test("the server is killed after a run: Regenerate gives the same text from the one started again", async ({ context, slow }) => {
  const desk = await Desk.open(context, slow.url);
  await desk.set({ Seed: "12", Length: "12" });
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  await slow.kill();
  await expect(desk.page.locator(".server")).toContainText("Offline");
  await slow.start();
  await desk.idle();
  await desk.button("Regenerate").click();
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 12 of 12 tokens");
  expect(await desk.text()).toBe(text);
});

test("three tabs write at once, and none changes another's words", async ({ browser, context, server }) => {
  const orders = [
    {
      settings: { Seed: "1", Length: "40" },
      text: "The ferry left without its captain, and nobody on the quay",
    },
    {
      settings: { Seed: "2", Length: "40", "Top-p": "1" },
      text: "“You are late,” said the clockmaker.",
    },
    {
      settings: { Seed: "3", Length: "40", Temperature: "1.3" },
      text: "Snow had fallen on the orchard for three days when",
    },
  ];
  const desks = [];
  for (const { settings, text } of orders) {
    const desk = await Desk.open(context, server.url);
    await desk.replaceAll(text);
    await desk.set(settings);
    await desk.toEnd();
    desks.push(desk);
  }
  await Promise.all(desks.map((desk) => desk.button("Generate Ctrl+Enter").click()));
  await Promise.all(desks.map((desk) => desk.verified()));
  const together = await Promise.all(desks.map((desk) => desk.text()));
  for (const [i, { settings, text }] of orders.entries())
    expect(await reference(browser, server.url, settings, text)).toBe(together[i]);
});

test("the page is reloaded at token 7: it goes on by itself, from there, to the same text", async ({
  browser,
  context,
  slow,
}) => {
  const settings = { Seed: "99", Length: "20" };
  const expected = await reference(browser, slow.url, settings);
  const desk = await Desk.open(context, slow.url);
  await desk.set(settings);
  await desk.generate();
  await desk.reaches(7);
  const asked = desk.page.waitForRequest((request) => request.url().includes("/stream?from="));
  await desk.page.reload();
  const from = Number(new URL((await asked).url()).searchParams.get("from"));
  expect(from).toBeGreaterThanOrEqual(7);
  await desk.verified();
  expect(await desk.text()).toBe(expected);
  await expect(desk.line()).toContainText("20 tokens");
});

test("Stop keeps what is written, and what is written is verified", async ({ context, slow }) => {
  const desk = await Desk.open(context, slow.url);
  await desk.set({ Length: "100" });
  await desk.generate();
  await desk.reaches(3);
  await desk.page.keyboard.press("Escape");
  await desk.verified();
  await expect(desk.line()).toContainText("stopped");
});
