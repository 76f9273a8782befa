import { type FailureCode, type FieldError, type FieldErrorCode, failures } from "./failure.ts";

/** The meaning of a failure code in plain words, with an example. */
export interface Explanation {
  /** Why a request was not served. In this text, "it" means the request. */
  why: string;
  /** What the client can do about the failure. */
  what: string;
  /** The response header that tells the client more about the failure. */
  header?: string;
  /** An example of the `detail` of a response. */
  detail: string;
  /** Examples of the field errors in a response. */
  fieldErrors?: FieldError[];
}

/** The meaning of every failure code in `failure.ts`. The log, the OpenAPI document and the documentation share this table. */
export const explanations: Record<FailureCode, Explanation> = {
  missing_key: {
    why: "It came without an API key.",
    what: "Send one: Authorization: Bearer <API_KEY>.",
    header: "WWW-Authenticate",
    detail: "Send an API key: Authorization: Bearer <API_KEY>.",
  },
  invalid_key: {
    why: "No key has this secret, or the key has a new one.",
    what: "Was the key rotated? After the overlap only the new secret works. Was all of it copied?",
    header: "WWW-Authenticate",
    detail: "This is not an API key of this service.",
  },
  revoked_key: {
    why: "The key had been revoked, for good.",
    what: "Give the client another key.",
    header: "WWW-Authenticate",
    detail: "This key has been revoked, for good.",
  },
  disabled_key: {
    why: "The key was disabled.",
    what: "Enable the key if its client may continue.",
    header: "WWW-Authenticate",
    detail: "This key is disabled. It can be enabled again.",
  },
  expired_key: {
    why: "The key had expired.",
    what: "Set a later expiry, or give the client another key.",
    header: "WWW-Authenticate",
    detail: "This key has expired.",
  },
  account_suspended: {
    why: "The operator of this service has suspended the account.",
    what: "Ask the operator of this service why, and to resume it. Nothing is lost in the meantime: the account's data stay, and its deliveries wait.",
    detail: "This account is suspended. The operator of this service can say why, and resume it.",
  },
  ip_not_allowed: {
    why: "It came from an address that the key may not be used from.",
    what: "Compare the address with the allowed IPs of the key.",
    detail: "This API key may not be used from this address.",
  },
  insufficient_scope: {
    why: "The key does not have the scope that this operation needs.",
    what: "Add the scope to the key, if the client is meant to do this.",
    header: "WWW-Authenticate",
    detail: "This operation needs a scope that the key does not have.",
  },
  forbidden: {
    why: "It asked for more than its key may grant or see.",
    what: "The response names the missing permission. Use a key that has it.",
    detail: "This asks for more than the key itself may do. Missing: users:write.",
  },
  rate_limit_exceeded: {
    why: "The key had used all its requests of this clock hour.",
    what: "Wait for the next hour, spread the calls, or raise the limit of the key.",
    header: "Retry-After",
    detail: "This key has used all its requests of this hour.",
  },
  not_found: {
    why: "There is nothing of this account under that id or path.",
    what: "Check the id: it may have been deleted, or be of another account.",
    detail: "There is no such task.",
  },
  method_not_allowed: {
    why: "The path exists, but not for this method.",
    what: "Use a method that it supports.",
    header: "Allow",
    detail: "This path takes GET, HEAD, POST.",
  },
  request_timeout: {
    why: "The body did not arrive within 15 seconds.",
    what: "Send the body at once; look for a slow network or an upload that stalls.",
    detail: "The body was not there within 15 seconds.",
  },
  conflict: {
    why: "The request conflicts with the current state.",
    what: "The response names the conflict. If others were changing the same resource at that moment, send the request again.",
    detail: "This is being changed by others just now. Try again.",
  },
  request_in_progress: {
    why: "The same request was still running under its Idempotency-Key.",
    what: "Try again in a moment with the same key.",
    header: "Retry-After",
    detail: "A request with this Idempotency-Key is running. Try again in a moment.",
  },
  limit_reached: {
    why: "The account has reached one of its limits.",
    what: "Remove what is no longer needed. The guide to limits has the numbers.",
    detail: "The account has as many of these as it may. Remove one that is no longer used.",
  },
  precondition_failed: {
    why: "It was not the version that If-Match named, or it was one that If-None-Match excluded.",
    what: "Read it again, and repeat the change on what is there now.",
    header: "ETag",
    detail: "The task is not in a version that If-Match or If-None-Match allows. Read it again.",
  },
  body_too_large: {
    why: "Its body was larger than 64 KiB.",
    what: "Send less at once.",
    detail: "A body may have 64 KiB at most.",
  },
  unsupported_media_type: {
    why: "Its body was of a type that is not taken here, or compressed.",
    what: "Send it as application/json, in UTF-8, without Content-Encoding.",
    header: "Accept-Post",
    detail: "Send the body as application/json, in UTF-8.",
  },
  malformed_json: {
    why: "Its body was not valid JSON.",
    what: "Look for a missing bracket or a text that is not UTF-8.",
    detail: "The body is not valid JSON in UTF-8.",
  },
  invalid_parameter: {
    why: "A query parameter is unknown or not valid.",
    what: "The answer names it, and what is taken.",
    detail: "The query has parameters that are not valid.",
    fieldErrors: [{ detail: "This is not known here.", code: "unknown_parameter", parameter: "page" }],
  },
  invalid_cursor: {
    why: "The cursor belongs to another list or filter, or was changed.",
    what: "Begin again with the first page.",
    detail: "This cursor was not given out for this list. Begin again without one.",
    fieldErrors: [
      {
        detail: "Take `next_cursor` of the page before, with the same filters and order.",
        code: "invalid_cursor",
        parameter: "cursor",
      },
    ],
  },
  invalid_header: {
    why: "A header was not in the form that is taken.",
    what: "The answer names it.",
    detail: "The request has headers that are not valid.",
    fieldErrors: [{ detail: "Must be in the form that is documented.", code: "invalid_format", header: "If-Match" }],
  },
  invalid_body: {
    why: "Its body was JSON, but not what this operation takes.",
    what: "The answer names every member that is wrong. Nobody keeps it: send the request again to read it.",
    detail: "The body is JSON, but not what this operation takes.",
    fieldErrors: [{ detail: "This is not known here.", code: "unknown_member", pointer: "/colour" }],
  },
  idempotency_key_reused: {
    why: "Its Idempotency-Key had come with another request.",
    what: "Take a new key for each request; the same only to repeat one.",
    detail: "This Idempotency-Key was used for another request. Take a new one for each.",
    fieldErrors: [{ detail: "Take a new key for each request.", code: "reused", header: "Idempotency-Key" }],
  },
  internal_error: {
    why: "Something went wrong on the service's side.",
    what: "Ask the operator, with the request id.",
    detail: "Something went wrong on our side. The request id helps us find out what.",
  },
  unavailable: {
    why: "The service could not reach its storage or the guard of the key, or its storage is full: `detail` says which.",
    what: "Try again: the client should wait as long as the header says.",
    header: "Retry-After",
    detail: "The service cannot reach its storage just now. Try again in a moment.",
  },
};

/** The meaning of every field error code (`errors[].code`). */
export const fieldErrorCodes: Record<FieldErrorCode, string> = {
  required: "It is needed, and was not sent.",
  unknown_member: "The body has a member that is not known here.",
  unknown_parameter: "The query has a parameter that is not known here.",
  unknown_header: "A header is not known here.",
  invalid_type: "It is of another type than is taken: a number where a string is, say.",
  invalid_value: "It is none of the values that are taken.",
  invalid_format: "It is not in the form that is taken: a time, an address, an email address, a pattern.",
  invalid_union: "It has none of the forms that are taken.",
  invalid_text: "It has NUL, half a character or, in a name, an invisible character.",
  invalid_encoding: "It is not percent-encoded UTF-8.",
  invalid_span: "The span of time is empty, or too long for what was asked.",
  invalid_cursor: "The cursor was not given out for this list.",
  invalid: "It is not in the form that is taken here.",
  too_small: "It is too short, too few or too little.",
  too_big: "It is too long, too many or too much.",
  not_multiple_of: "It is no whole number.",
  unknown_user: "There is no such user.",
  duplicate: "Something else has this already and only one may, or it was given twice.",
  refused_url: "Webhooks may not lead there: to another scheme, a private address, this service itself.",
  reused: "The key was used for another request.",
};

/** The origin that examples use when the origin of the service is not known. */
export const exampleOrigin = "https://api.example.com";

/** Returns an example of an error response from the service at `origin`. `instance` is the path of the request. */
export function problemExample(code: FailureCode, { instance, origin }: { instance: string; origin: string }) {
  const { status, title } = failures[code];
  const { detail, fieldErrors } = explanations[code];
  const isQuota = code === "rate_limit_exceeded";
  return {
    type: isQuota ? "https://iana.org/assignments/http-problem-types#quota-exceeded" : `${origin}/docs/errors/${code}`,
    title,
    status,
    detail,
    instance,
    code,
    request_id: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    ...(fieldErrors && { errors: fieldErrors.map((fieldError) => ({ ...fieldError })) }),
    ...(isQuota && { "violated-policies": ["hour"] }),
  };
}
