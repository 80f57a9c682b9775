// Takes, and what can be done with them without a server: switch, undo, replay, preview; and records as files.
import { readFile } from "node:fs/promises";
import { Desk, expect, reference, test } from "./desk";

test("takes of a passage are kept, one click and one undo away; the writer's own edits too", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  const opening = await desk.text();
  await desk.set({ Length: "10" });
  await desk.generate();
  await desk.verified();
  const first = await desk.text();
  await desk.page.keyboard.press("Alt+n");
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  const second = await desk.text();
  expect(second).not.toBe(first);

  await desk.button("Take 1").click();
  await expect.poll(() => desk.text()).toBe(first);
  await desk.page.keyboard.press("Alt+.");
  await expect.poll(() => desk.text()).toBe(second);

  // Back through all of it and forth again.
  await desk.paper().focus();
  for (const text of [first, second, first, opening]) {
    await desk.page.keyboard.press("Control+z");
    await expect.poll(() => desk.text()).toBe(text);
  }
  for (const text of [first, second, first, second]) {
    await desk.page.keyboard.press("Control+y");
    await expect.poll(() => desk.text()).toBe(text);
  }
  await expect(desk.line()).toContainText("take 2 of 2");

  // An edit inside the passage becomes a take when another is put in its place.
  await desk.toEnd();
  await desk.page.keyboard.press("ArrowLeft");
  await desk.page.keyboard.press("ArrowLeft");
  await desk.page.keyboard.type("zzz");
  await expect(desk.line()).toContainText("edited by you");
  const edited = await desk.text();
  await desk.button("Take 1").click();
  await expect.poll(() => desk.text()).toBe(first);
  await expect(desk.line()).toContainText("take 1 of 3");
  await desk.button("Take 3").click();
  await expect.poll(() => desk.text()).toBe(edited);
  await expect(desk.line()).toContainText("your own version");

  // All of it is there after a reload.
  await desk.page.reload();
  await desk.idle();
  expect(await desk.text()).toBe(edited);
  await desk.button("Take 2").click();
  await expect.poll(() => desk.text()).toBe(second);
});

test("what the writer types while a passage is written stays theirs, and undoes on its own", async ({ context, slow }) => {
  const desk = await Desk.open(context, slow.url);
  const opening = await desk.text();
  await desk.set({ Length: "14" });
  await desk.generate();
  await desk.reaches(3);
  await desk.page.keyboard.press("Control+Home");
  await desk.page.keyboard.type("Once. ");
  await desk.verified();
  const written = await desk.text();
  expect(written.startsWith(`Once. ${opening}`)).toBe(true);
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe(`Once. ${opening}`);
  await desk.page.keyboard.press("Control+z");
  await expect.poll(() => desk.text()).toBe(opening);
  await desk.page.keyboard.press("Control+y");
  await desk.page.keyboard.press("Control+y");
  await expect.poll(() => desk.text()).toBe(written);
});

test("offline: a take is recomputed from what the browser keeps, and takes can be switched", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "5", Length: "16" });
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  await context.setOffline(true);
  await expect(desk.page.locator(".server")).toContainText("Offline");
  await desk.more("Replay here");
  await expect(desk.page.locator("[data-replay]")).toHaveText("replayed here: 16 of 16 tokens equal");
  await desk.set({ Temperature: "0" });
  await expect(desk.page.locator("[data-preview]")).toContainText(/stay|stays/);
  await expect(desk.button("Continue from there")).toBeDisabled();
  expect(await desk.text()).toBe(text);
});

test("preview of another seed, from stored frames alone; then its continuation from the token where it parts", async ({
  browser,
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "41", Length: "24" });
  await desk.generate();
  await desk.verified();
  const first = await desk.text();

  const asked: string[] = [];
  desk.page.on("request", (request) => {
    if (!request.url().endsWith("/api/health")) asked.push(new URL(request.url()).pathname + new URL(request.url()).search);
  });
  const preview = desk.page.locator("[data-preview]");
  // A seed whose first tokens agree, so that there is something to stay.
  let [seed, stays] = [0, 0];
  for (seed = 42; stays === 0; seed++) {
    await desk.set({ Seed: String(seed) });
    await expect(desk.page.locator("[data-preview-of]")).toHaveAttribute("data-preview-of", String(seed));
    stays = Number(/(\d+) of 24 tokens? stays?/.exec((await preview.textContent()) ?? "")?.[1] ?? 0);
  }
  seed--;
  await expect(preview).toContainText(
    new RegExp(`${stays} of 24 tokens stays?; token ${stays + 1} would be “.*” instead of “.*”`, "s"),
  );
  const instead = await desk.page.locator(".qm-instead").textContent();
  const leaves = (await desk.page.locator(".qm-leaves").allTextContents()).join("");
  expect(asked).toEqual([]);

  await desk.button("Continue from there").click();
  await expect(desk.line()).toContainText("take 2 of 2");
  await desk.verified();
  expect(asked).toContainEqual(expect.stringContaining(`/stream?from=${stays}`));
  const second = await desk.text();
  const flat = (text: string): string => text.replaceAll("\n", "");
  const same = flat(first).slice(0, flat(first).length - leaves.length);
  expect(flat(second).startsWith(same + flat(instead ?? "?"))).toBe(true);
  await expect(desk.line()).toContainText(`seed ${seed}`);
  expect(await reference(browser, server.url, { Seed: String(seed), Length: "24" })).toBe(second);
});

test("a preview that stored frames cannot answer says so", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "41", Length: "6" });
  await desk.generate();
  await desk.verified();
  await desk.set({ "Top-k": "0" });
  await expect(desk.page.locator("[data-preview]")).toContainText("only the 50 likeliest words were kept");
  await desk.button("Continue from there").click();
  await expect(desk.line()).toContainText("top-k off");
  await desk.verified();
});

test("a record is saved, and opened in another browser, where it replays", async ({ browser, context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "8", Length: "9" });
  await desk.generate();
  await desk.verified();
  const text = await desk.text();
  const saved = desk.page.waitForEvent("download");
  await desk.more("Save record");
  const file = await (await saved).path();

  const elsewhere = await browser.newContext();
  const other = await Desk.open(elsewhere, server.url);
  await other.button("Stories").click();
  await other.page.locator("#stories input[type=file]").setInputFiles(file);
  await expect(other.page.locator("[data-replay]")).toHaveText("replayed here: 9 of 9 tokens equal");
  expect(await other.text()).toBe(text);
  // It can be regenerated there as well.
  await other.page.keyboard.press("Alt+r");
  await expect(other.page.locator("[data-again]")).toHaveText("same text, 9 of 9 tokens");
  await expect(other.verdict()).toHaveText("verified");

  // A changed record is told apart.
  const record = JSON.parse(await readFile(file, "utf8")) as {
    tokens: number[];
  };
  record.tokens[2] = (record.tokens[2] ?? 0) + 1;
  await other.button("Stories").click();
  await other.page.locator("#stories input[type=file]").setInputFiles({
    name: "changed.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify(record)),
  });
  await expect(other.page.locator("[data-replay]")).toContainText("Differs from token 3.");
  await elsewhere.close();
});

test("a take is compared with a record file and with the server's record: where they part, and in what", async ({
  context,
  server,
}) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "8", Length: "9" });
  await desk.generate();
  await desk.verified();
  const saved = desk.page.waitForEvent("download");
  await desk.more("Save record");
  const file = await (await saved).path();
  const compared = desk.page.locator("[data-compared]");
  const compareWith = async (contents: unknown): Promise<void> => {
    const buffer = Buffer.from(JSON.stringify(contents));
    await desk.page.locator(".menu input[type=file]").setInputFiles({ name: "other.json", mimeType: "application/json", buffer });
  };

  const record = JSON.parse(await readFile(file, "utf8")) as {
    identity: { target: string; model: { sha256: string } };
    tokens: number[];
    frames: (string | null)[];
  };
  expect(record.identity.target).toBe("wasm32-unknown-unknown");
  expect(record.identity.model.sha256).toMatch(/^[0-9a-f]{64}$/);
  await compareWith(record);
  // A browser does not know what computed the logits: this is reported, but is no difference.
  await expect(compared).toContainText("Compared with other.json. Not recorded, and so not compared: server (both)");
  await expect(compared).toContainText("The runs are the same: 9 steps");

  const token = structuredClone(record);
  token.tokens[4] = (token.tokens[4] ?? 0) + 1;
  await compareWith(token);
  await expect(compared).toContainText(
    "The runs part at step 4, in the token: recomputed here, the step gives the first record's",
  );

  const missing = structuredClone(record);
  missing.frames[2] = null;
  await compareWith(missing);
  await expect(compared).toContainText("not enough to call the runs the same");
  await expect(compared).toContainText("logits in the second record from step 2");

  // The server's record is the same run; that another build sampled it is reported first.
  await desk.more("Compare with the server’s record");
  await expect(compared).toContainText("The records were not made by the same release: target wasm32-unknown-unknown and");
  await expect(compared).toContainText("The runs are the same: 9 steps");

  await compareWith({ record: 7 });
  await expect(desk.page.locator("#bar .notice")).toContainText("not a Quillmate record");
  // It is there after a reload.
  await desk.page.reload();
  await desk.idle();
  await expect(compared).toContainText("The runs are the same: 9 steps");
});

test("a passage deleted from the text is kept and can be put back", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Length: "6" });
  await desk.generate();
  await desk.verified();
  await desk.replaceAll("Another beginning:");
  await desk.page.reload();
  await desk.idle();
  await desk.toEnd();
  await desk.page.getByText("1 passage kept that is no longer in the text").click();
  await desk.button("Put back at the cursor").click();
  await expect(desk.line()).toContainText("take 1 of 1");
  expect((await desk.text()).startsWith("Another beginning:")).toBe(true);
});
