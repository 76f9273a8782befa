import type { Precondition } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { RouteContext } from "./context.ts";
import { respondEmpty, respondJson } from "./respond.ts";

// An ETag contains the revision of a row. If the response also contains data from outside the row, the ETag ends with a hash of the
// response (12 hex digits). A read with If-None-Match compares the whole ETag. All other checks compare only the revision, because a write
// can overwrite only data in the row. A proxy that compresses a response makes its ETag weak (`W/`). The checks accept a weak ETag, because
// its revision still identifies exactly one version.

export const etagOf = (revision: string, rest?: string): string => (rest === undefined ? `"${revision}"` : `"${revision}.${rest}"`);

const revisionOf = (tag: string): string | undefined => /^(?:W\/)?"([^".]+)(?:\.[0-9a-f]{12})?"$/.exec(tag)?.[1];

/**
 * Returns the ETag of a response that contains a row and data from outside the row. The outside data can change without a write to the row.
 */
export const etagOfShown = (revision: string, body: object): string => etagOf(revision, hashOf(JSON.stringify(body)).slice(0, 12));

/** Returns the ETag of a response without a revision. The ETag is a hash of the content. */
export const etagOfContent = (body: object): string => etagOf(hashOf(JSON.stringify(body)).slice(0, 16));

const tag = '(?:W/)?"[!\\x23-\\x7e\\x80-\\xff]*"';
/** The pattern of a valid If-Match or If-None-Match header. */
export const tagListPattern = `^\\s*(?:\\*|${tag}(?:\\s*,\\s*${tag})*)\\s*$`;
const tagList = new RegExp(tagListPattern);

/** Returns the entity tags of a header, `*` for any tag, or null if the header is absent. Throws `invalid_header`. */
export function tagsIn(c: RouteContext, header: "If-Match" | "If-None-Match"): string[] | "*" | null {
  const value = c.req.header(header);
  if (value === undefined) return null;
  if (!tagList.test(value)) {
    throw new Failure("invalid_header", `The value of the header ${header} is not valid.`, {
      fieldErrors: [
        {
          header,
          code: "invalid_format",
          detail: 'Must be * or a list of entity tags as the service sent them, including the quotes: "..."',
        },
      ],
    });
  }
  return value.trim() === "*" ? "*" : (value.match(/(?:W\/)?"[^"]*"/g) ?? []);
}

/** Returns whether the client already has this version (RFC 9110, 13.1.2, weak comparison). */
function isKnown(c: RouteContext, etag: string): boolean {
  const known = tagsIn(c, "If-None-Match");
  return known === "*" || (known?.some((each) => each.replace(/^W\//, "") === etag) ?? false);
}

/** Returns whether `tags` is `*` or contains an ETag with this revision. */
const names = (tags: string[] | "*", revision: string): boolean => tags === "*" || tags.some((each) => revisionOf(each) === revision);

/**
 * Returns the precondition in the headers `If-Match` and `If-None-Match` (RFC 9110, 13.2.2). Without these headers, the precondition always
 * holds.
 */
export function preconditionOf(c: RouteContext): Precondition {
  const [wanted, unwanted] = [tagsIn(c, "If-Match"), tagsIn(c, "If-None-Match")];
  return (revision) => (wanted === null || names(wanted, revision)) && (unwanted === null || !names(unwanted, revision));
}

/**
 * Responds with one resource, or with 304 if the client already has this version. Throws `precondition_failed` if `If-Match` does not match
 * the current version.
 */
export function respondOne<Body extends object>(c: RouteContext, body: Body, etag: string) {
  return respondNotModified(c, etag) ?? respondJson(c, body, 200, { ETag: etag });
}

/**
 * Responds with 304 if the client already has this version. Otherwise, returns null. Throws `precondition_failed` if `If-Match` does not
 * match the current version.
 */
export function respondNotModified(c: RouteContext, etag: string) {
  const wanted = tagsIn(c, "If-Match");
  if (wanted !== null && !names(wanted, revisionOf(etag) ?? ""))
    throw new Failure("precondition_failed", "The current version of the resource does not match If-Match.");
  return isKnown(c, etag) ? respondEmpty(c, 304, { ETag: etag }) : null;
}
