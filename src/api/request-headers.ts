import { Failure } from "../errors.ts";
import type { ApiContext } from "./context.ts";

type TagHeader = "If-Match" | "If-None-Match";

const tag = '(?:W/)?"[!\\x23-\\x7e\\x80-\\xff]*"';
const tagList = new RegExp(`^\\s*${tag}(?:\\s*,\\s*${tag})*\\s*$`);
const printable = /^[\x20-\x7e]{1,255}$/;

const refuse = (header: string, detail: string) =>
  new Failure("invalid_header", `The header ${header} is not valid.`, { faults: [{ header, code: "invalid_format", detail }] });

/** The entity tags of a header, `*` for any, or null where it is absent. Throws `invalid_header`. */
export function tagsIn(c: ApiContext, header: TagHeader): string[] | "*" | null {
  const value = c.req.header(header);
  if (value === undefined) return null;
  if (value.trim() === "*") return "*";
  if (!tagList.test(value)) throw refuse(header, 'Must be * or entity tags as they came, quotes included: "..."');
  return value.match(/(?:W\/)?"[^"]*"/g) ?? [];
}

/** The Idempotency-Key, or null where it is absent. Throws `invalid_header`. */
export function idempotencyKeyIn(c: ApiContext): string | null {
  const value = c.req.header("idempotency-key");
  if (value === undefined) return null;
  if (!printable.test(value)) throw refuse("Idempotency-Key", "Must be 1 to 255 printable ASCII characters.");
  return value;
}

const checks: Record<string, (c: ApiContext) => unknown> = {
  "If-Match": (c) => tagsIn(c, "If-Match"),
  "If-None-Match": (c) => tagsIn(c, "If-None-Match"),
  "Idempotency-Key": idempotencyKeyIn,
};

/** Refuses a request with a header that its operation reads and cannot, before anything is looked up. */
export function checkHeaders(c: ApiContext, headers: readonly string[]): void {
  for (const header of headers) checks[header]?.(c);
}
