import { brand, teamName } from "../settings.ts";
import type { FailureCode, FieldError, FieldErrorCode } from "./failure.ts";

/** The name of the team at the beginning of a sentence. */
const sentenceStart = brand.name || "The team behind this service";

/** The meaning of a failure code in plain words, with an example. */
export interface Explanation {
  /** Why a request was not served. */
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
    why: "The request had no API key.",
    what: "Send an API key in the header Authorization: Bearer <API_KEY>.",
    header: "WWW-Authenticate",
    detail: "Send an API key: Authorization: Bearer <API_KEY>.",
  },
  invalid_key: {
    why: "No key has this secret, or the secret has been replaced.",
    what: "Check that the complete secret was copied. If the key was rotated, only the new secret works after the overlap.",
    header: "WWW-Authenticate",
    detail: "This is not a key of this service, or its secret has been replaced.",
  },
  revoked_key: {
    why: "The key had been permanently revoked.",
    what: "Give the client another key.",
    header: "WWW-Authenticate",
    detail: "This key has been permanently revoked.",
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
  invalid_token: {
    why: "The request to the team API or to `/metrics` had no service token, or its token is unknown, revoked or expired.",
    what: "Send a service token in the header Authorization: Bearer <SERVICE_TOKEN>. Create one with the command `npm run operator -- tokens make`.",
    header: "WWW-Authenticate",
    detail: "Send a service token or an operator token: Authorization: Bearer <TOKEN>.",
  },
  too_many_attempts: {
    why: "More than ten wrong operator tokens came from one IP address within a minute.",
    what: "Wait a minute, then try again. The right token is accepted at any time.",
    header: "Retry-After",
    detail:
      "Too many requests with a wrong token came from your IP address. Wait a minute, then try again. The right token is accepted at any time.",
  },
  account_suspended: {
    why: `${sentenceStart} has suspended the account.`,
    what: `Ask ${teamName} to resume the account. Nothing is lost in the meantime: the account's data is kept, and its deliveries wait.`,
    detail: `This account is suspended. Ask ${teamName} to resume the account.`,
  },
  ip_not_allowed: {
    why: "The request came from an IP address that the key does not allow.",
    what: "Compare the IP address with the allowed IPs of the key.",
    detail: "This key may not be used from this IP address.",
  },
  insufficient_scope: {
    why: "The key does not have the scope that this operation needs.",
    what: "Add the scope to the key if the client should use this operation.",
    header: "WWW-Authenticate",
    detail: "This operation needs the scope keys:write.",
  },
  forbidden: {
    why: "The request asked for something that its key may not grant or see.",
    what: "The response names the missing permission. Use a key that has it.",
    detail: "This key may only act on keys whose scopes it also has. Missing scopes: webhooks:write.",
  },
  cost_exceeds_limit: {
    why: "The request costs more units than a limit of the key or its account allows in a whole period.",
    what: "Raise the limit. Waiting does not help.",
    detail: "This request costs 5 units, which is more than a whole limit: 2 per second.",
  },
  rate_limit_exceeded: {
    why: "A limit of the key or its account had no room for the request. The response names each such limit in violated-policies.",
    what: "Wait as long as the Retry-After header says, spread the requests over time, or raise the limit.",
    header: "Retry-After",
    detail: "The limit is used up: 5,000 per hour.",
  },
  too_many_unknown_keys: {
    why: "More than 20 keys that do not exist came from one IP address within a second.",
    what: "Check the key of your client, and send the request again after a second.",
    header: "Retry-After",
    detail: "Too many keys that do not exist came from your IP address. Try again in a moment.",
  },
  not_found: {
    why: "The account has no resource with this id, or the path does not exist.",
    what: "Check the id. The resource may have been deleted, or may belong to another account.",
    detail: "There is no such key.",
  },
  method_not_allowed: {
    why: "The path exists, but it does not support the method of the request.",
    what: "Use a method that the path supports.",
    header: "Allow",
    detail: "This path supports the methods GET, HEAD, POST.",
  },
  request_timeout: {
    why: "The body did not arrive within 15 seconds.",
    what: "Send the complete body without pauses. Check for a slow network or a stalled upload.",
    detail: "The body did not arrive within 15 seconds.",
  },
  conflict: {
    why: "The request conflicts with the current state.",
    what: "The response names the conflict. If others were changing the same resource at that moment, send the request again.",
    detail: "Other requests are changing the same data. Try again.",
  },
  request_in_progress: {
    why: "An earlier request with the same Idempotency-Key was still running.",
    what: "Try again in a moment with the same Idempotency-Key.",
    header: "Retry-After",
    detail: "A request with this Idempotency-Key is still running. Try again in a moment.",
  },
  limit_reached: {
    why: "The account has reached one of its limits.",
    what: "Remove resources that you no longer need. The guide to limits lists all limits.",
    detail: "An account may have at most 50 live keys. Revoke a key that you no longer use.",
  },
  precondition_failed: {
    why: "The current version of the resource did not match If-Match, or it matched If-None-Match.",
    what: "Read the resource again, and apply the change to its current version.",
    header: "ETag",
    detail: "The current version of the key does not match If-Match, or it matches If-None-Match. Read the key again.",
  },
  body_too_large: {
    why: "The body of the request was larger than 64 KiB.",
    what: "Send less data in one request.",
    detail: "A body may have at most 64 KiB.",
  },
  unsupported_media_type: {
    why: "The body of the request was compressed, or had an unsupported media type.",
    what: "Send the body as application/json, in UTF-8, without Content-Encoding.",
    header: "Accept-Post",
    detail: "Send the body as application/json, in UTF-8.",
  },
  malformed_json: {
    why: "The body of the request was not valid JSON.",
    what: "Check for a missing bracket, or for text that is not UTF-8.",
    detail: "The body is not valid JSON in UTF-8.",
  },
  invalid_parameter: {
    why: "A query parameter was unknown or not valid.",
    what: "The response names the parameter and the supported values.",
    detail: "The query has parameters that are not valid.",
    fieldErrors: [{ detail: "This is not a known name.", code: "unknown_parameter", parameter: "page" }],
  },
  invalid_cursor: {
    why: "The cursor belongs to another list or filter, or it was changed.",
    what: "Start again with the first page.",
    detail: "This cursor does not belong to this list. Start again without a cursor.",
    fieldErrors: [
      {
        detail: "Send the `next_cursor` of the previous page, with the same filters and order.",
        code: "invalid_cursor",
        parameter: "cursor",
      },
    ],
  },
  invalid_header: {
    why: "A header of the request did not have the supported format.",
    what: "The response names the header.",
    detail: "The request has headers that are not valid.",
    fieldErrors: [{ detail: "Must have the documented format.", code: "invalid_format", header: "If-Match" }],
  },
  invalid_body: {
    why: "The body of the request was valid JSON, but did not match the schema of the operation.",
    what: "The response names every invalid member. Correct these members, and send the request again.",
    detail: "The body is valid JSON, but it does not match the schema of this operation.",
    fieldErrors: [{ detail: "This is not a known name.", code: "unknown_member", pointer: "/colour" }],
  },
  idempotency_key_reused: {
    why: "The Idempotency-Key had already been used for another request.",
    what: "Use a new Idempotency-Key for each new request. Use the same value only to repeat a request.",
    detail: "This Idempotency-Key was already used for another request. Use a new value for each new request.",
    fieldErrors: [{ detail: "Must be a new value for each new request.", code: "reused", header: "Idempotency-Key" }],
  },
  internal_error: {
    why: "An unexpected error occurred in the service.",
    what: `Ask ${teamName}, and include the request id.`,
    detail: "Something went wrong on our side. The request id helps us find the cause.",
  },
  unavailable: {
    why: "The storage of the service was unreachable or full, or the guard of the key was unreachable. The detail of the response names the cause.",
    what: "The header Retry-After says how long to wait.",
    header: "Retry-After",
    detail: "The service cannot reach its storage right now. Try again in a moment.",
  },
};

/** The meaning of every field error code (`errors[].code`). */
export const fieldErrorCodes: Record<FieldErrorCode, string> = {
  required: "The value is required, but it was not sent.",
  unknown_member: "The body has an unknown member.",
  unknown_parameter: "The query has an unknown parameter.",
  unknown_header: "The request has an unknown header.",
  invalid_type: "The value has the wrong type, for example a number instead of a string.",
  invalid_value: "The value is not one of the supported values.",
  invalid_format: "The value does not have the required format, for example of a time, an IP address or an email address.",
  invalid_union: "The value does not match any supported format.",
  invalid_text: "The text contains NUL, a lone surrogate or, in a name, an invisible character.",
  invalid_encoding: "The value is not percent-encoded UTF-8.",
  invalid_span: "The time span is empty, or too long for the operation.",
  invalid_cursor: "The cursor does not belong to this list.",
  invalid: "The value does not have the supported format.",
  too_small: "The value is too small, is too short, or has too few items.",
  too_big: "The value is too large, is too long, or has too many items.",
  not_multiple_of: "The value is not a whole number.",
  unknown_user: "The user does not exist.",
  duplicate: "The value must be unique, but it is already in use or was sent twice.",
  refused_url: "Webhooks may not use this URL, for example because of its scheme, a private host, or the host of this service.",
  reused: "The Idempotency-Key was used for another request.",
};

/** The origin that examples use when the origin of the service is not known. */
export const exampleOrigin = "https://api.example.com";
