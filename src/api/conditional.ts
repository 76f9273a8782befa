import type { Precondition } from "../accounts/actor.ts";
import { Failure } from "../errors.ts";
import { hashOf } from "../hash.ts";
import type { ApiContext } from "./context.ts";
import { tagsIn } from "./request-headers.ts";
import { sendEmpty, sendJson } from "./send.ts";

// An ETag is the row's revision and, where the answer also shows what is not in the row, a second part of 12 hex digits that
// stands for it. If-None-Match compares all of it, If-Match the revision: what a write may lose is in the row.

export const etagOf = (revision: string, rest?: string): string => (rest === undefined ? `"${revision}"` : `"${revision}.${rest}"`);

const revisionOf = (tag: string): string | undefined => /^"([^".]+)(?:\.[0-9a-f]{12})?"$/.exec(tag)?.[1];

/** Of what has no revision: its content's. */
export const etagOfContent = (body: object): string => etagOf(hashOf(JSON.stringify(body)).slice(0, 16));

/** Whether the client has this version already (RFC 9110, 13.1.2, weak comparison). */
function isUnchanged(c: ApiContext, etag: string): boolean {
  const known = tagsIn(c, "If-None-Match");
  return known === "*" || (known?.some((tag) => tag.replace(/^W\//, "") === etag) ?? false);
}

/** The precondition of `If-Match`, strong comparison (RFC 9110, 13.1.1). Holds where the header is absent. */
export function ifMatch(c: ApiContext): Precondition {
  const wanted = tagsIn(c, "If-Match");
  if (wanted === null || wanted === "*") return () => true;
  return (revision) => wanted.some((tag) => revisionOf(tag) === revision);
}

/** One resource, or 304 where the client has it already. Throws `precondition_failed`. */
export function answerOne<Body extends object>(c: ApiContext, body: Body, etag: string) {
  if (!ifMatch(c)(revisionOf(etag) ?? "")) throw new Failure("precondition_failed", "This is not the version that If-Match names.");
  if (isUnchanged(c, etag)) return sendEmpty(c, 304, { ETag: etag });
  return sendJson(c, body, 200, { ETag: etag });
}
