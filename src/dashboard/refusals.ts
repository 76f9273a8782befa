import type { ReadEntry } from "../activity/read-activity.ts";
import { hourMs, hourStart } from "../clock.ts";
import { timeOfId } from "../ids.ts";
import { integer, timeOfDay } from "./format.ts";

/** Why a request was not served, and what its client can do: in words, for whoever looks at it. */
export interface Explanation {
  why: string;
  what: string;
  /** The header of the response that would have told the client. */
  header?: string;
}

const explanations: Record<string, Explanation> = {
  missing_key: { why: "It came without an API key.", what: "Send one: Authorization: Bearer <API_KEY>.", header: "WWW-Authenticate" },
  invalid_key: {
    why: "Its secret is not, or no longer, one of this key.",
    what: "Was the key rotated? After the overlap only the new secret works.",
    header: "WWW-Authenticate",
  },
  revoked_key: { why: "The key had been revoked, for good.", what: "Give the client another key.", header: "WWW-Authenticate" },
  disabled_key: { why: "The key was disabled.", what: "Enable the key, if the client may go on.", header: "WWW-Authenticate" },
  expired_key: { why: "The key had expired.", what: "Set a later expiry, or give the client another key.", header: "WWW-Authenticate" },
  ip_not_allowed: {
    why: "It came from an address that the key may not be used from.",
    what: "Compare the address with the allowed addresses of the key.",
  },
  insufficient_scope: {
    why: "The key has not the scope that this operation needs.",
    what: "Add the scope to the key, if the client is meant to do this.",
    header: "WWW-Authenticate",
  },
  forbidden: { why: "It asked for more than its key may grant or see.", what: "The body of the answer names what was missing." },
  rate_limit_exceeded: {
    why: "The key had used all its requests of this clock hour.",
    what: "Wait for the next hour, spread the calls, or raise the limit of the key.",
    header: "Retry-After",
  },
  not_found: {
    why: "There is nothing of this account under that id or path.",
    what: "Check the id: it may have been deleted, or be of another account.",
  },
  method_not_allowed: {
    why: "The path exists, but not for this method.",
    what: "The header says which methods it takes.",
    header: "Allow",
  },
  request_timeout: {
    why: "The body was not there within 15 seconds.",
    what: "Send the body at once; look for a slow network or an upload that stalls.",
  },
  conflict: { why: "What it asked for clashes with what is there.", what: "The body of the answer says with what." },
  request_in_progress: {
    why: "The same request was still running under its Idempotency-Key.",
    what: "Try again in a moment with the same key.",
    header: "Retry-After",
  },
  limit_reached: { why: "The account has as many of these as it may.", what: "Remove what is no longer needed." },
  precondition_failed: {
    why: "The thing had changed since the version that If-Match named.",
    what: "Read it again, and repeat the change on what is there now.",
    header: "ETag",
  },
  body_too_large: { why: "The body was larger than 64 KiB.", what: "Send less at once." },
  unsupported_media_type: {
    why: "The body was of a type that is not taken here.",
    what: "Send it as application/json.",
    header: "Accept-Post",
  },
  malformed_json: { why: "The body was not valid JSON.", what: "Look for a missing bracket or a text that is not UTF-8." },
  invalid_parameter: { why: "A parameter of the query is not taken.", what: "The body of the answer names it, and what is." },
  invalid_cursor: { why: "The cursor belongs to another list or filter, or was changed.", what: "Begin again with the first page." },
  invalid_header: { why: "A header was not in the form that is taken.", what: "The body of the answer names it." },
  invalid_body: {
    why: "The body was JSON, but not what this operation takes.",
    what: "The body of the answer named every member that was wrong. It is not kept: send the request again to read it.",
  },
  idempotency_key_reused: {
    why: "Its Idempotency-Key had come with another request.",
    what: "Take a new key for each request; the same only to repeat one.",
  },
  internal_error: { why: "Something went wrong on the service's side.", what: "Ask the operator, with the request id." },
  unavailable: {
    why: "The service could not reach its storage or the guard of the key.",
    what: "Try again: the client should wait as long as the header says.",
    header: "Retry-After",
  },
};

/** Of a request that was refused or failed; null for one that was served. `hourlyLimit`: that of its key, where it is known. */
export function explain(
  { id, status, errorCode }: Pick<ReadEntry, "id" | "status" | "errorCode">,
  hourlyLimit?: number,
): Explanation | null {
  if (status < 400) return null;
  if (errorCode === "rate_limit_exceeded" && hourlyLimit !== undefined) {
    const hour = hourStart(timeOfId(id));
    return {
      why: `The key had used all its requests of the hour from ${timeOfDay(hour)} to ${timeOfDay(hour + hourMs)}; its limit is ${integer(hourlyLimit)} an hour.`,
      what: "Wait for the next hour, spread the calls, or raise the limit of the key.",
      header: "Retry-After",
    };
  }
  return explanations[errorCode ?? ""] ?? { why: `It was answered with ${status}.`, what: "The body of the answer says more." };
}
