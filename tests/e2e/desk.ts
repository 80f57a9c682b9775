// Drives the page as a writer does, in a fresh browser for each test.
import { type Browser, type BrowserContext, expect, type Locator, type Page, test as base } from "@playwright/test";
import { Server } from "./server";

const plain: readonly string[] = ["Temperature", "Top-k", "Top-p", "Seed", "Length"] satisfies Plain[];
type Plain = "Temperature" | "Top-k" | "Top-p" | "Seed" | "Length";
/** Folded away under “More”. */
type Further = "Repetition" | "Avoid loops" | "Min-p" | "Surprise";

export class Desk {
  private constructor(readonly page: Page) {}

  static async open(context: BrowserContext, url: string): Promise<Desk> {
    return Desk.on(await context.newPage(), url);
  }

  static async on(page: Page, url: string): Promise<Desk> {
    await steadySeeds(page);
    await page.goto(url);
    const desk = new Desk(page);
    await desk.idle();
    return desk;
  }

  readonly paper = (): Locator => this.page.getByRole("textbox", { name: "Your story" });
  readonly line = (): Locator => this.page.getByRole("group", { name: "About this passage" });
  readonly verdict = (): Locator => this.page.locator("[data-verdict]");
  readonly button = (name: string): Locator => this.page.getByRole("button", { name, exact: true });
  readonly progress = (): Locator => this.page.locator("#bar .progress");

  /** The text, without what the page shows in between. */
  text(): Promise<string> {
    return this.paper().evaluate((paper) =>
      [...paper.querySelectorAll(":scope > .cm-line")]
        .map((line) => {
          const copy = line.cloneNode(true) as Element;
          for (const shown of copy.querySelectorAll(".qm-instead, .cm-placeholder")) shown.remove();
          return copy.textContent ?? "";
        })
        .join("\n"),
    );
  }

  /** Generate can be pressed: nothing is being written, and the server is there. */
  async idle(): Promise<void> {
    await expect(this.page.locator("#generate")).toBeEnabled({
      timeout: 120_000,
    });
  }

  async set(settings: Partial<Record<Plain | Further, string>>): Promise<void> {
    const folded = this.page.locator("details.further:not([open]) > summary");
    if (Object.keys(settings).some((label) => !plain.includes(label)) && (await folded.count()) > 0) await folded.click();
    for (const [label, value] of Object.entries(settings)) await this.page.getByLabel(label, { exact: true }).fill(value);
  }

  async toEnd(): Promise<void> {
    await this.paper().focus();
    await this.page.keyboard.press("Control+End");
  }

  async replaceAll(text: string): Promise<void> {
    await this.paper().focus();
    await this.page.keyboard.press("Control+a");
    await this.page.keyboard.insertText(text);
  }

  async generate(): Promise<void> {
    await this.toEnd();
    await this.page.keyboard.press("Control+Enter");
  }

  /** Until at least so many tokens are written. */
  async reaches(token: number): Promise<void> {
    await expect.poll(() => this.tokens(), { timeout: 120_000, intervals: [20] }).toBeGreaterThanOrEqual(token);
  }

  async tokens(): Promise<number> {
    const shown = await this.progress().textContent();
    return Number(/token (\d+) of/.exec(shown ?? "")?.[1] ?? 0);
  }

  async verified(): Promise<void> {
    await this.idle();
    await expect(this.verdict()).toHaveText("verified");
  }

  async more(item: string): Promise<void> {
    await this.line().locator("summary", { hasText: "More" }).click();
    await this.button(item).click();
  }
}

/**
 * The seeds that the page draws are the same each time a test runs: with others a text may end sooner than a test expects.
 * They are drawn in the worker, whose script no init script reaches.
 */
async function steadySeeds(page: Page): Promise<void> {
  await page.route(/\/sampler\.worker-[^/]*\.js$/, async (route) => {
    const response = await route.fetch();
    const drawn = "let drawn = 1; crypto.getRandomValues = (into) => into.forEach((_, at) => (into[at] = drawn = (drawn * 75) % 65537)) ?? into;";
    await route.fulfill({ response, body: drawn + (await response.text()) });
  });
}

/** What a seed gives, written without any disturbance in a browser of its own. */
export async function reference(
  browser: Browser,
  url: string,
  settings: Parameters<Desk["set"]>[0],
  text?: string,
): Promise<string> {
  const context = await browser.newContext();
  const desk = await Desk.open(context, url);
  if (text !== undefined) await desk.replaceAll(text);
  await desk.set(settings);
  await desk.generate();
  await desk.verified();
  const result = await desk.text();
  await context.close();
  return result;
}

export const test = base.extend<{ slow: Server; complaints: string[]; watched: undefined }, { server: Server }>({
  /** One for all tests that leave it alive. */
  server: [
    // oxlint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const server = await Server.start();
      await use(server);
      await server.end();
    },
    { scope: "worker" },
  ],
  /** A server of the test's own, which takes its time over each token so that a test can come in between. */
  // oxlint-disable-next-line no-empty-pattern
  slow: async ({}, use) => {
    const server = await Server.start(150);
    await use(server);
    await server.end();
  },
  complaints: async ({ context }, use) => {
    const complaints: string[] = [];
    context.on("weberror", (error) => complaints.push(String(error.error())));
    context.on("console", (message) => {
      if (/Content.Security.Policy|Uncaught/.test(message.text())) complaints.push(message.text());
    });
    await use(complaints);
  },
  /** No test passes on a page that broke its own policy or threw. */
  watched: [
    async ({ complaints }, use) => {
      await use(undefined);
      expect(complaints).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };
