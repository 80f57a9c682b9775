// The writer's words: none is lost or duplicated, whatever fails.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "@playwright/test";
import config from "./playwright.config";
import { Desk, expect, test } from "./desk";

const saved = (page: Page) => page.locator("[data-saved]");

test("a generation inside a passage is undone with all it did to that passage", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "41", Length: "12" });
  await desk.generate();
  await desk.verified();
  const whole = await desk.text();
  for (let n = 0; n < 12; n++) await desk.page.keyboard.press("ArrowLeft");
  await desk.page.keyboard.press("Control+Enter");
  await expect(desk.line()).toContainText("12 tokens");
  await desk.verified();
  const branched = await desk.text();
  // The first passage is the beginning of its take and does not count as edited.
  await desk.page.keyboard.press("Control+Home");
  const first = desk.page.locator(".qm-passage").first();
  await first.click();
  await expect(desk.line()).toContainText("the beginning of take 1; the rest is your own text now");
  await expect(desk.line()).not.toContainText("edited by you");
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe(whole);
  await first.click();
  await expect(desk.line()).toContainText("take 1 of 2");
  await expect(desk.button("Put back")).toHaveCount(0);
  await desk.page.keyboard.press("Control+y");
  await expect.poll(() => desk.text()).toBe(branched);
});

test("what is typed while the server is asked stays, and the passage comes where it was asked for", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.replaceAll("The old door was open. And then");
  await desk.set({ Seed: "3", Length: "6" });
  let go = (): void => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  await desk.page.route("**/api/runs", async (route) => {
    await held;
    await route.continue();
  });
  await desk.generate();
  await expect(desk.progress()).toContainText("Asking the server");
  await desk.page.keyboard.press("Control+Home");
  await desk.page.keyboard.insertText("Once. ");
  go();
  await desk.verified();
  expect(await desk.text()).toMatch(/^Once\. The old door was open\. And then\S*[ \n.,]/);
  await desk.paper().focus();
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe("Once. The old door was open. And then");
});

test("until the story is there nothing can be typed, and the page says so", async ({ context, server }) => {
  const page = await context.newPage();
  await page.addInitScript(() => {
    const open = indexedDB.open.bind(indexedDB);
    // A store that takes two seconds to open, as one does that another tab still holds.
    Object.defineProperty(indexedDB, "open", {
      value: (...args: [string, number?]) => {
        const request = open(...args);
        const add = request.addEventListener.bind(request);
        request.addEventListener = ((kind: string, listener: (event: Event) => void, ...rest: []) =>
          add(
            kind,
            (event: Event) => void (kind === "success" ? setTimeout(listener, 2000, event) : listener(event)),
            ...rest,
          )) as typeof add;
        return request;
      },
    });
  });
  await page.goto(server.url);
  const paper = page.getByRole("textbox", { name: "Your story" }).or(page.locator(".cm-content"));
  await expect(page.locator("#paper")).toContainText("Opening your story…");
  await expect(paper.first()).toHaveAttribute("contenteditable", "false");
  await paper.first().click();
  await page.keyboard.type("lost words");
  await page.keyboard.press("Control+Enter");
  await page.keyboard.press("Alt+r");
  await page.keyboard.press("Alt+w");
  await page.keyboard.press("Control+f");
  await expect(paper.first()).toHaveAttribute("contenteditable", "true");
  await expect(paper.first()).toContainText("The letter arrived on a Tuesday");
  await expect(paper.first()).not.toContainText("lost words");
  await page.keyboard.press("Control+End");
  await page.keyboard.type(" kept words");
  await expect(paper.first()).toContainText("kept words");
});

test("what was typed a moment before a reload is there after it", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  for (const text of ["One.", "One, and two.", "Three of them stood there."]) {
    await desk.replaceAll(text);
    await desk.page.reload();
    await desk.idle();
    expect(await desk.text()).toBe(text);
  }
});

/** What holds of any page whose store is full, however that came about. */
async function fullStore(page: Page, fill: () => unknown, free: () => unknown): Promise<void> {
  const paper = page.getByRole("textbox", { name: "Your story" });
  await expect(page.locator("#generate")).toBeEnabled({ timeout: 120_000 });
  await paper.focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(" Kept.");
  await expect(saved(page)).toHaveText("Saved");
  await fill();
  const typed = ` Typed when there was no room. ${"More words than fit into what is left. ".repeat(5000)}`;
  await page.keyboard.insertText(typed);
  // A browser may count on the room it found before, for half a minute.
  await expect(async () => {
    await page.keyboard.insertText("More. ");
    await expect(saved(page)).toContainText("Not saved: copy your text", { timeout: 2000 });
  }).toPass({ timeout: 90_000 });
  await expect(page.locator(".notice")).toContainText("storage_full");
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(typed.trim());
  // Leaving asks.
  const asked = page.waitForEvent("dialog");
  await page.close({ runBeforeUnload: true });
  const dialog = await asked;
  expect(dialog.type()).toBe("beforeunload");
  await dialog.dismiss();
  await expect(saved(page)).toContainText("Not saved");
  // Room again: it is saved by itself, on the connection there is or on a new one.
  await free();
  await expect(saved(page)).toHaveText("Saved", { timeout: 60_000 });
  await page.reload();
  await expect(paper).toContainText("More words than fit into what is left.");
}

test("no room left: the page says that nothing is saved, gives the text, asks before it goes, and saves as soon as it can", async ({
  context,
  server,
}) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  await page.goto(server.url);
  const cdp = await context.newCDPSession(page);
  const origin = new URL(server.url).origin;
  await fullStore(
    page,
    () => cdp.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 }),
    () => cdp.send("Storage.overrideQuotaForOrigin", { origin }),
  );
});

test("the disk is full, and has room again", async ({ server }) => {
  const disk = mkdtempSync(join(tmpdir(), "quillmate-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=40m", "tmpfs", disk]);
  } catch (error) {
    rmSync(disk, { recursive: true });
    test.skip(true, `a small disk of its own needs the right to mount one: ${String(error)}`);
  }
  try {
    mkdirSync(join(disk, "profile"));
    const context = await chromium.launchPersistentContext(join(disk, "profile"), {
      ...config.use?.launchOptions,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const page = context.pages()[0] ?? (await context.newPage());
    await page.goto(server.url);
    const filler = join(disk, "filler");
    await fullStore(
      page,
      () => {
        // All of it, to the last block.
        for (let size = 1 << 20; size >= 4096; size /= 2)
          for (let n = 0; ; n++)
            try {
              writeFileSync(`${filler}-${size}-${n}`, Buffer.alloc(size));
            } catch {
              break;
            }
        expect(statfsSync(disk).bavail).toBeLessThan(4);
      },
      () => execFileSync("sh", ["-c", `rm -f "${filler}"*`]),
    );
    await context.close();
  } finally {
    execFileSync("umount", ["-l", disk]);
    rmSync(disk, { recursive: true, force: true });
  }
});

test("stories that an older page kept open here, and their takes are still proven", async ({ context, server }) => {
  const page = await context.newPage();
  await page.goto(`${server.url}api/health`);
  const opening = "A story of an older page: once";
  await page.evaluate(async (text) => {
    const db = await new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open("quillmate", 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("stories", { keyPath: "id" });
        request.result.createObjectStore("takes", { keyPath: "id" }).createIndex("story", "story");
        request.result.createObjectStore("frames");
        request.result.createObjectStore("models");
      };
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("no database"));
    });
    const settings = { temperature: 0, top_k: 50, top_p: 0.95 };
    const story = { id: "s", text: `${text} more`, passages: [{ id: "p", from: text.length, to: text.length + 5, take: "t" }] };
    const start = { contract: "quillmate-v1", format: 1, seed: "1", step: 0, prompt: [1], tokens: [], settings };
    const take = {
      kind: "run",
      id: "t",
      story: "s",
      passage: "p",
      number: 1,
      text: " more",
      run: null,
      prompt: text,
      length: 1,
      start,
    };
    const rest = {
      tokens: [2],
      checksums: ["00000000"],
      status: "done",
      reason: "length",
      repeats: null,
      parted: null,
      replaces: null,
    };
    const model = { name: "m", sha256: "a", tokenizer_sha256: "b", vocab: 9, arithmetic: null };
    const all = db.transaction(["stories", "takes"], "readwrite");
    all.objectStore("stories").put({ ...story, settings, length: 8, seed: null, cursor: text.length + 5, changed: 1 });
    all.objectStore("takes").put({ ...take, ...rest, model, verdict: { verdict: "match", steps: 1 }, replay: null, again: 1 });
    await new Promise((resolve) => (all.oncomplete = resolve));
    db.close();
  }, opening);
  const desk = await Desk.open(context, server.url);
  expect(await desk.text()).toBe(`${opening} more`);
  await expect(desk.verdict()).toHaveText("verified");
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 1 of 1 token");
});
