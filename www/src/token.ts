// The server's token, where it asks for one (server/API.md, "Who may ask"). The page asks for it once and keeps it in this
// browser; it asks again only if the server refuses it.

const KEY = "quillmate-token";

/** Valid characters of a header. */
const SENDABLE = /^[\x21-\x7e]+$/u;

/** Where the token is kept: in the browser's storage, or for as long as the page is open where that is switched off. */
export function browserStorage(): Pick<Storage, "getItem" | "setItem"> {
  const here = new Map<string, string>();
  return {
    getItem(key) {
      try {
        return localStorage.getItem(key) ?? here.get(key) ?? null;
      } catch {
        return here.get(key) ?? null;
      }
    },
    setItem(key, value) {
      here.set(key, value);
      try {
        localStorage.setItem(key, value);
      } catch {
        // It is kept here then.
      }
    },
  };
}

export class Access<Init extends RequestInit> {
  /** Whether the reader was asked and gave no token; then nobody asks again before the page is loaded anew. */
  private declined = false;

  constructor(
    private readonly kept: Pick<Storage, "getItem" | "setItem">,
    private readonly ask: (question: string) => string | null,
    private readonly send: (path: string, init: Init) => Promise<Response>,
  ) {}

  /** `fetch`, with the token. */
  async fetch(path: string, init: Init): Promise<Response> {
    for (;;) {
      const token = this.kept.getItem(KEY);
      const headers = new Headers(init.headers);
      if (token !== null) headers.set("authorization", `Bearer ${token}`);
      const answer = await this.send(path, { ...init, headers });
      if (answer.status !== 401 || this.declined) return answer;
      // Another call may have got it meanwhile.
      if (this.kept.getItem(KEY) !== token) continue;
      if (!this.askForIt(token !== null)) return answer;
    }
  }

  private askForIt(refused: boolean): boolean {
    let question = refused ? "The server refused this token. Its token:" : "This server asks for a token:";
    for (;;) {
      const given = this.ask(question)?.trim() ?? "";
      if (given === "") {
        this.declined = true;
        return false;
      }
      if (SENDABLE.test(given)) {
        this.kept.setItem(KEY, given);
        return true;
      }
      question = "A token has no spaces and no letters but those of ASCII. The server's token:";
    }
  }
}
