// A server that others can reach asks for a token; the page asks the writer for it once.
import { Desk, expect, test } from "./desk";
import { Server } from "./server";

test("the page asks for the server's token once, and again only if it was refused", async ({ context }) => {
  const token = "a token of some length".replaceAll(" ", "-");
  const server = await Server.start(0, token);
  const page = await context.newPage();
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    void dialog.accept(asked.length === 1 ? "not-the-token-of-this-server" : token);
  });
  const desk = await Desk.on(page, server.url);
  expect(asked).toEqual(["This server asks for a token:", "The server refused this token. Its token:"]);
  await desk.set({ Length: "8" });
  await desk.generate();
  await desk.verified();

  await page.reload();
  await desk.idle();
  await desk.button("Regenerate").click();
  await expect(page.locator("[data-again]")).toHaveText("same text, 8 of 8 tokens");
  expect(asked).toHaveLength(2);
  await server.end();
});
