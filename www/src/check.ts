// Checks the shape of received JSON before the rest of the page uses it.

/** An answer that is not what the API promises. `code` is the page's own. */
export class UnexpectedShape extends Error {
  readonly code = "unexpected_answer";
  constructor(what: string) {
    super(`Expected ${what}.`);
  }
}

export type Json = Record<string, unknown>;
type Check<T> = (value: unknown, what: string) => T;

export const object: Check<Json> = (value, what) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new UnexpectedShape(`${what} to be an object`);
  return value as Json;
};

export const text: Check<string> = (value, what) => {
  if (typeof value !== "string") throw new UnexpectedShape(`${what} to be a text`);
  return value;
};

export const number: Check<number> = (value, what) => {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new UnexpectedShape(`${what} to be a number`);
  return value;
};

/** A count, an index or a token id. */
export const count: Check<number> = (value, what) => {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0)
    throw new UnexpectedShape(`${what} to be a whole number`);
  return value;
};

export const seed: Check<string> = (value, what) => {
  if (typeof value !== "string" || !isSeed(value)) throw new UnexpectedShape(`${what} to be a seed`);
  return value;
};

export const list =
  <T>(item: Check<T>): Check<T[]> =>
  (value, what) => {
    if (!Array.isArray(value)) throw new UnexpectedShape(`${what} to be a list`);
    return value.map((one, index) => item(one, `${what}[${index}]`));
  };

export const orNull =
  <T>(check: Check<T>): Check<T | null> =>
  (value, what) =>
    value === null || value === undefined ? null : check(value, what);

export const oneOf =
  <T extends string>(...allowed: T[]): Check<T> =>
  (value, what) => {
    const found = allowed.find((one) => one === value);
    if (found === undefined) throw new UnexpectedShape(`${what} to be one of ${allowed.join(", ")}`);
    return found;
  };

/** A seed is an unsigned 64-bit integer, kept in decimal because a JavaScript number would lose bits. */
export function isSeed(value: string): boolean {
  return /^(0|[1-9]\d{0,19})$/.test(value) && BigInt(value) < 2n ** 64n;
}
