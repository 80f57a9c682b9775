// The real server with the real model, started, killed and started again as the tests need it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

function needed(name: string): string {
  const path = process.env[name];
  if (path === undefined || !existsSync(path))
    throw new Error(`${name} must name a file that is there; it is ${path ?? "not set"}.`);
  return path;
}

const www = resolve(process.env["QUILLMATE_WWW"] ?? join(import.meta.dirname, "../../www/dist"));

export class Server {
  #process: ChildProcess | null = null;
  #log = "";

  private constructor(
    private readonly port: number,
    private readonly data: string,
    private readonly stepDelay: number,
    private readonly token: string | null,
  ) {}

  /**
   * @param stepDelay milliseconds before each token, for tests that must come in between
   * @param token what the server asks of every call; nothing if null
   */
  static async start(stepDelay = 0, token: string | null = null): Promise<Server> {
    const server = new Server(await freePort(), mkdtempSync(join(tmpdir(), "quillmate-e2e-")), stepDelay, token);
    await server.start();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** Starts, or starts again with the same data. */
  async start(): Promise<void> {
    const flags = [
      "--model",
      needed("QUILLMATE_MODEL"),
      "--port",
      String(this.port),
      "--data",
      this.data,
      "--www",
      www,
      "--step-delay-ms",
      String(this.stepDelay),
      ...(this.token === null ? [] : ["--token", this.token]),
    ];
    const headers: HeadersInit = this.token === null ? {} : { authorization: `Bearer ${this.token}` };
    const child = spawn(needed("QUILLMATE_SERVER"), flags, {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    for (const output of [child.stdout, child.stderr]) output.on("data", (piece: Buffer) => (this.#log += piece.toString()));
    for (;;) {
      if (child.exitCode !== null) throw new Error(`The server ended with ${child.exitCode}:\n${this.#log}`);
      const ready = await fetch(`${this.url}api/health`, { headers }).then(
        async (answer) => ((await answer.json()) as { status?: string }).status === "ready",
        () => false,
      );
      if (ready) return;
      await new Promise((later) => setTimeout(later, 100));
    }
  }

  /** No chance to tidy up: SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.data, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") throw new Error("No port is free.");
  return address.port;
}
