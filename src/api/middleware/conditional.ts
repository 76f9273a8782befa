import { hashOf } from "../../crypto/hash.ts";
import type { Precondition } from "../../db/optimistic-locking.ts";
import { Failure } from "../../errors/failure.ts";
import type { ApiContext } from "../context.ts";
import { respondEmpty, respondJson } from "../respond.ts";

// An ETag is the row's revision and, where the response also shows what is not in the row, a second part of 12 hex digits that
// stands for it. A read with If-None-Match compares all of it. Everything else compares the revision: what a write may lose is in the row.
// A revision names one version exactly, so the weak form of a tag names it too: proxies that compress a response weaken its tag.

export const etagOf = (revision: string, rest?: string): string => (rest === undefined ? `"${revision}"` : `"${revision}.${rest}"`);

const revisionOf = (tag: string): string | undefined => /^(?:W\/)?"([^".]+)(?:\.[0-9a-f]{12})?"$/.exec(tag)?.[1];

/** Of a row that is shown with what changes without a write of it. */
export const etagOfShown = (revision: string, body: object): string => etagOf(revision, hashOf(JSON.stringify(body)).slice(0, 12));

/** Of what has no revision: its content's. */
export const etagOfContent = (body: object): string => etagOf(hashOf(JSON.stringify(body)).slice(0, 16));

const tag = '(?:W/)?"[!\\x23-\\x7e\\x80-\\xff]*"';
/** What If-Match and If-None-Match may say. */
export const tagListPattern = `^\\s*(?:\\*|${tag}(?:\\s*,\\s*${tag})*)\\s*$`;
const tagList = new RegExp(tagListPattern);

/** The entity tags of a header, `*` for any, or null where it is absent. Throws `invalid_header`. */
export function tagsIn(c: ApiContext, header: "If-Match" | "If-None-Match"): string[] | "*" | null {
  const value = c.req.header(header);
  if (value === undefined) return null;
  if (!tagList.test(value)) {
    throw new Failure("invalid_header", `The header ${header} is not valid.`, {
      faults: [{ header, code: "invalid_format", detail: 'Must be * or entity tags as they came, quotes included: "..."' }],
    });
  }
  return value.trim() === "*" ? "*" : (value.match(/(?:W\/)?"[^"]*"/g) ?? []);
}

/** Whether the client has this version already (RFC 9110, 13.1.2, weak comparison). */
function isKnown(c: ApiContext, etag: string): boolean {
  const known = tagsIn(c, "If-None-Match");
  return known === "*" || (known?.some((each) => each.replace(/^W\//, "") === etag) ?? false);
}

/** Whether one of the tags of `If-Match` or `If-None-Match` names this revision. */
const names = (tags: string[] | "*", revision: string): boolean => tags === "*" || tags.some((each) => revisionOf(each) === revision);

/** What a change requires by `If-Match` and `If-None-Match` (RFC 9110, 13.2.2). Holds if both are absent. */
export function preconditionOf(c: ApiContext): Precondition {
  const [wanted, unwanted] = [tagsIn(c, "If-Match"), tagsIn(c, "If-None-Match")];
  return (revision) => (wanted === null || names(wanted, revision)) && (unwanted === null || !names(unwanted, revision));
}

/** One resource, or 304 where the client has it already. Throws `precondition_failed`. */
export function respondOne<Body extends object>(c: ApiContext, body: Body, etag: string) {
  return respondNotModified(c, etag) ?? respondJson(c, body, 200, { ETag: etag });
}

/** 304 where the client has this version already, else null. Throws `precondition_failed`. */
export function respondNotModified(c: ApiContext, etag: string) {
  const wanted = tagsIn(c, "If-Match");
  if (wanted !== null && !names(wanted, revisionOf(etag) ?? ""))
    throw new Failure("precondition_failed", "This is not the version that If-Match names.");
  return isKnown(c, etag) ? respondEmpty(c, 304, { ETag: etag }) : null;
}
