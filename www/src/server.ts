// Is the server there, is its model loaded, and which model is it? Asked again and again, gently.
import * as api from "./api";
import { codeOf } from "./errors";
import { complain, type Page } from "./page";
import type { ServerStatus } from "./state";
import { TokenTable } from "./tokens";

const OFTEN_MS = 1000;
const SELDOM_MS = 5000;

export class Server {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last: ServerStatus = "unknown";

  constructor(
    private readonly page: Page,
    /** Called whenever the server has become ready: at the start, and after it was away. */
    private readonly ready: () => Promise<void>,
  ) {
    addEventListener("online", () => void this.look());
    addEventListener("offline", () => void this.look());
    page.live.listen(() => {
      const { server } = page.live.now;
      // Somebody lost the connection: look soon.
      if (server === "away" && this.#last !== "away") this.#again(OFTEN_MS);
      this.#last = server;
    });
  }

  async look(): Promise<void> {
    clearTimeout(this.#timer);
    const { live } = this.page;
    try {
      const { status, loaded_bytes, total_bytes } = await api.health();
      live.set({ loaded: { bytes: loaded_bytes, of: total_bytes } });
      if (status === "loading") live.set({ server: "loading" });
      else if (live.now.server !== "ready") {
        await this.#meet();
        live.set({ server: "ready" });
        void this.ready();
      }
    } catch (error) {
      if (live.now.server === "unknown") await this.#remember();
      const slow = codeOf(error) === "timed_out";
      // A server that is slow to say how it is may still be writing: the stream itself notices when it falls silent.
      if (!slow || live.now.work === null) live.set({ server: "away" });
      if (!slow && codeOf(error) !== "unreachable") complain(this.page, error);
    }
    this.#again(live.now.server === "ready" ? SELDOM_MS : OFTEN_MS);
  }

  #again(wait: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.look(), wait);
  }

  /** The model's name and its token table, which is kept for pages without a server. */
  async #meet(): Promise<void> {
    const { live, store } = this.page;
    const info = await api.model();
    const known = await store.model(info.tokenizer_sha256);
    const table = known?.table ?? (await api.tokenTable());
    live.set({ model: info, table: new TokenTable(table) });
    await store.saveModel({ info, table });
  }

  async #remember(): Promise<void> {
    const known = await this.page.store.model();
    if (known !== undefined) this.page.live.set({ model: known.info, table: new TokenTable(known.table) });
  }
}
