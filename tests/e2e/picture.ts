// docs/page.png: the page with a continuation by the real model, checked by the server, and the reason for one of its words.
import { join } from "node:path";
import { Desk, expect, test } from "./desk";

test("the picture of the page", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await desk.set({ Seed: "5", Length: "29" });
  await desk.generate();
  await desk.verified();
  await desk.button("Why this word?").click();
  await desk.button("Previous token").click();
  await expect(desk.page.locator("[data-why]")).toContainText("token 28 of 29");
  await desk.page.screenshot({ path: join(import.meta.dirname, "../../docs/page.png") });
});
