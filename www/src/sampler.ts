// The client of the worker: each call sends a message and returns a promise. Calls are answered in order.
import { ApiError } from "./errors";
import type { Answer, Calls, Request } from "./sampler.worker";

type Remote = { [Name in keyof Calls]: (...args: Parameters<Calls[Name]>) => Promise<ReturnType<Calls[Name]>> };

export function startSampler(): Remote {
  const worker = new Worker(new URL("./sampler.worker.ts", import.meta.url), { type: "module", name: "sampler" });
  const waiting = new Map<number, PromiseWithResolvers>();
  let last = 0;

  worker.addEventListener("message", (event: MessageEvent<Answer>) => {
    const answer = event.data;
    const asked = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ("error" in answer) asked?.reject(new ApiError(answer.error.code ?? "worker", answer.error.message));
    else asked?.resolve(answer.value);
  });
  worker.addEventListener("error", (event) => {
    for (const asked of waiting.values())
      asked.reject(new ApiError("worker", event.message || "The sampler could not be loaded. Reload the page."));
    waiting.clear();
  });

  const call = (name: keyof Calls, args: unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const request: Request = { id: ++last, call: name, args };
      waiting.set(request.id, { resolve, reject });
      worker.postMessage(request);
    });
  return new Proxy(
    {},
    {
      get:
        (_, name: keyof Calls) =>
        (...args: unknown[]) =>
          call(name, args),
    },
  ) as Remote;
}

interface PromiseWithResolvers {
  resolve(value: unknown): void;
  reject(error: Error): void;
}
