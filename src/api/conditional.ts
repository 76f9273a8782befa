import type { Precondition } from "../accounts/actor.ts";
import { Failure } from "../errors.ts";
import type { ApiContext } from "./context.ts";

// An ETag is the row's revision and, where the answer also shows what is not in the row, a second part that stands for it:
// "revision" or "revision.rest". If-None-Match compares all of it, If-Match the revision: what may be lost is in the row.

export const etagOf = (revision: string, rest?: string): string => (rest === undefined ? `"${revision}"` : `"${revision}.${rest}"`);

const tags = /^\s*(?:W\/)?"[!\x23-\x7e\x80-\xff]*"(?:\s*,\s*(?:W\/)?"[!\x23-\x7e\x80-\xff]*")*\s*$/;

function tagsIn(c: ApiContext, header: "If-Match" | "If-None-Match"): string[] | "*" | null {
  const value = c.req.header(header);
  if (value === undefined) return null;
  if (value.trim() === "*") return "*";
  if (!tags.test(value)) {
    throw new Failure("invalid_header", `${header} must be * or a list of entity tags in quotes.`, {
      faults: [{ header, code: "invalid_format", detail: 'Send the ETag as it came, quotes included: "..."' }],
    });
  }
  return value.match(/(?:W\/)?"[^"]*"/g) ?? [];
}

/** Whether the client has this version already (RFC 9110, 13.1.2, weak comparison). */
export function isUnchanged(c: ApiContext, etag: string): boolean {
  const known = tagsIn(c, "If-None-Match");
  return known === "*" || (known?.some((tag) => tag.replace(/^W\//, "") === etag) ?? false);
}

/** The precondition of `If-Match`, strong comparison (RFC 9110, 13.1.1). Holds where the header is absent. */
export function ifMatch(c: ApiContext): Precondition {
  const wanted = tagsIn(c, "If-Match");
  if (wanted === null || wanted === "*") return () => true;
  return (revision) => wanted.some((tag) => tag === etagOf(revision) || tag.startsWith(`"${revision}.`));
}

/** One resource, or 304 where the client has it already. */
export function answerOne<Body extends object>(c: ApiContext, body: Body, etag: string) {
  if (isUnchanged(c, etag)) return c.body(null, 304, { ETag: etag });
  return c.json(body, 200, { ETag: etag });
}
