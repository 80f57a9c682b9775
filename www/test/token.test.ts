import { expect, test } from "vitest";
import { Access, browserStorage } from "../src/token";

const RIGHT = "correct-horse-battery-staple";

function server(answers: (string | null)[]) {
  const kept = new Map<string, string>();
  const asked: string[] = [];
  const access = new Access(
    { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) },
    (question) => {
      asked.push(question);
      return answers.shift() ?? null;
    },
    async (_path, init) => {
      await Promise.resolve();
      const right = new Headers(init.headers).get("authorization") === `Bearer ${RIGHT}`;
      return new Response(null, { status: right ? 200 : 401 });
    },
  );
  return { access, asked, kept };
}

const statuses = async (access: Access<RequestInit>, calls: number): Promise<number[]> =>
  Promise.all(Array.from({ length: calls }, async () => (await access.fetch("/api/health", {})).status));

test("the token is asked for once, whoever calls, and kept", async () => {
  const { access, asked, kept } = server([` ${RIGHT}\n`]);
  expect(await statuses(access, 5)).toEqual([200, 200, 200, 200, 200]);
  expect(asked).toHaveLength(1);
  expect([...kept.values()]).toEqual([RIGHT]);
  expect(await statuses(access, 2)).toEqual([200, 200]);
  expect(asked).toHaveLength(1);
});

test("a wrong one is asked for again, and one that cannot be sent is not sent", async () => {
  const { access, asked } = server(["wrong", "né", RIGHT]);
  expect(await statuses(access, 3)).toEqual([200, 200, 200]);
  expect(asked).toHaveLength(3);
});

test("who gives none is left alone", async () => {
  const { access, asked, kept } = server([null]);
  expect(await statuses(access, 3)).toEqual([401, 401, 401]);
  expect(await statuses(access, 3)).toEqual([401, 401, 401]);
  expect(asked).toHaveLength(1);
  expect(kept.size).toBe(0);
});

test("what a call says beside it stays", async () => {
  const { access } = server([RIGHT]);
  const seen: (string | null)[] = [];
  const spy = new Access(
    { getItem: () => RIGHT, setItem: () => undefined },
    () => null,
    async (_path, init) => {
      await Promise.resolve();
      seen.push(new Headers(init.headers).get("content-type"), init.method ?? null);
      return new Response();
    },
  );
  await spy.fetch("/api/runs", { method: "POST", headers: { "content-type": "application/json" } });
  expect(seen).toEqual(["application/json", "POST"]);
  expect((await access.fetch("/api/health", {})).status).toBe(200);
});

test("a browser whose storage is switched off keeps the token while the page is open", () => {
  // As here, where there is none at all.
  const storage = browserStorage();
  expect(storage.getItem("quillmate-token")).toBeNull();
  storage.setItem("quillmate-token", RIGHT);
  expect(storage.getItem("quillmate-token")).toBe(RIGHT);
});
