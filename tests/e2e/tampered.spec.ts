// Data that is changed in transit is refused, and the error names it.
import { crc32 } from "node:zlib";
import { Desk, expect, test } from "./desk";

interface Claim {
  tokens: number[];
  state: { tokens: number[] };
}

test("a token changed in the claim is refused, and the page names it", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  let honest = -1;
  await desk.page.route("**/verify", async (route) => {
    const claim = route.request().postDataJSON() as Claim;
    honest = claim.tokens[4] ?? -1;
    const forged = honest === 1000 ? 1001 : 1000;
    claim.tokens[4] = forged;
    claim.state.tokens[4] = forged;
    await route.continue({ postData: JSON.stringify(claim) });
  });
  await desk.set({ Seed: "41", Length: "12" });
  await desk.generate();
  await desk.idle();
  await expect(desk.verdict()).toHaveText("differs from token 5");
  const differs = desk.page.locator("[data-differs]");
  await expect(differs).toContainText("Differs from token 5.");
  await expect(differs).toContainText(/The browser chose .* \(1000\)/);
  await expect(differs).toContainText(`(${honest})`);
  await expect(differs).toContainText("the token itself was changed");

  // Without the forger the same take is found good.
  await desk.page.unroute("**/verify");
  await desk.button("Regenerate").click();
  await expect(desk.page.locator("[data-again]")).toHaveText("same text, 12 of 12 tokens");
  await expect(desk.verdict()).toHaveText("verified");
});

test("a frame damaged on the way gives no token; Resume fetches it again", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await changeStream(desk, (frame, step) => {
    if (step === 4) frame[40] = (frame[40] ?? 0) ^ 1;
  });
  await desk.set({ Seed: "41", Length: "12" });
  await desk.generate();
  await expect(desk.page.locator("#bar .notice")).toContainText("frame_damaged");
  await expect(desk.page.locator("[data-cut]")).toContainText("kept up to token 4 of 12");
  await desk.page.unroute("**/stream*");
  await desk.button("Resume").click();
  await desk.verified();
  await expect(desk.line()).toContainText("12 tokens");
});

test("a frame forged with a valid checksum misleads the browser, and the server names the token", async ({ context, server }) => {
  const desk = await Desk.open(context, server.url);
  await changeStream(desk, (frame, step) => {
    if (step !== 3) return;
    // The last logit becomes the best by far; then the checksum is made to fit.
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    view.setFloat32(frame.length - 8, 1e6, true);
    view.setUint32(frame.length - 4, crc32(frame.subarray(0, -4)), true);
  });
  await desk.set({ Seed: "41", Length: "8" });
  await desk.generate();
  await desk.idle();
  await expect(desk.verdict()).toHaveText("differs from token 4");
  await expect(desk.page.locator("[data-differs]")).toContainText("other logits");
  // The comparison of the two records agrees and names the inputs of the token.
  await expect(desk.page.locator("[data-compared]")).toContainText("The runs part at step 3, in the logits");
});

/** Lets a test change the frames of a stream; each message is a byte of kind, a u32 length and as many bytes. */
async function changeStream(desk: Desk, change: (frame: Uint8Array, step: number) => void): Promise<void> {
  await desk.page.route("**/stream*", async (route) => {
    const answer = await route.fetch();
    const body = await answer.body();
    for (let at = 0, step = 0; at < body.length;) {
      const length = body.readUInt32LE(at + 1);
      if (body[at] === 1) change(body.subarray(at + 5, at + 5 + length), step++);
      at += 5 + length;
    }
    await route.fulfill({ response: answer, body });
  });
}
