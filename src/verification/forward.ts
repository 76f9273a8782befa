import { looksLikeKey } from "../credentials/key-format.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { problemType } from "../http/problem.ts";
import { credentialIn } from "./credential.ts";
import { scopeForm } from "./schemas.ts";
import type { VerifyAnswer } from "./verify.ts";

// Forward auth: a proxy asks about a request before it passes the request on. nginx (`auth_request`), Caddy (`forward_auth`) and Traefik
// (ForwardAuth) send the original method and path in headers. Envoy (`ext_authz` over HTTP) sends the original method and appends the original path
// to the path that it calls.

/** The headers in which a proxy other than Envoy states the path of its client's request. */
export const statedPathHeaders = ["X-Forwarded-Uri", "X-Original-URI"] as const;

/** The path of forward auth in the team API. */
export const forwardPath = "/operator/api/verify/forward";

/**
 * Returns what a URL of forward auth has behind `forwardPath`, with the query, or null for the path itself. Throws `forbidden` if `URL` would read
 * another path than the one that was sent: a client behind Envoy could otherwise choose the path with dot segments or backslashes.
 */
export function suffixIn(url: string): string | null {
  const sent = url.slice(url.indexOf("/", url.indexOf("//") + 2));
  const [path = ""] = sent.split("?");
  if (new URL(url).pathname !== path) throw new Failure("forbidden", "The path has dot segments or other parts that change it.");
  const suffix = sent.slice(forwardPath.length);
  // A slash at the end of the path in the configuration of a proxy would make its options those of a client.
  if (suffix.startsWith("/?") && [...new URLSearchParams(suffix.slice(2)).keys()].some((name) => names.includes(name)))
    throw invalid("scope", "The path of forward auth has no slash at its end.");
  return path === forwardPath ? null : suffix;
}

/** Returns whether a request was sent to forward auth, even if `URL` reads another path. */
export const isForwarded = (url: string): boolean => {
  const pathAt = url.indexOf("/", url.indexOf("//") + 2);
  return (
    url.startsWith(forwardPath, pathAt) &&
    (url.length === pathAt + forwardPath.length || "/?\\".includes(url[pathAt + forwardPath.length] ?? ""))
  );
};

/** The options of forward auth. A proxy sets them for each location. */
export interface ForwardOptions {
  scope: string | undefined;
  cost: number;
  /** Whether the entry in the request log stays open for a report. */
  report: boolean;
  /** Whether every denial has the status 401 or 403, because nginx responds with 500 to all others. */
  denyWith403: boolean;
  passUnknown: boolean;
  passMissing: boolean;
}

const names = ["scope", "cost", "report", "deny", "unknown", "missing"];

/** Parses the options. Throws `invalid_parameter`. */
export function forwardOptions(query: URLSearchParams): ForwardOptions {
  const unknown = [...query.keys()].find((name) => !names.includes(name));
  if (unknown !== undefined) throw invalid(unknown.slice(0, 100), `Must be one of ${names.join(", ")}.`);
  const twice = names.find((name) => query.getAll(name).length > 1);
  if (twice !== undefined) throw invalid(twice, "Must be given once.");
  const only = (name: string, value: string): boolean => {
    const given = query.get(name);
    if (given !== null && given !== value) throw invalid(name, `Must be ${value}.`);
    return given !== null;
  };
  const cost = query.get("cost") ?? "1";
  if (!/^[1-9][0-9]{0,3}$/.test(cost) || Number(cost) > 1000) throw invalid("cost", "Must be a whole number from 1 to 1000.");
  const scope = query.get("scope") ?? undefined;
  if (scope !== undefined && !scopeForm.test(scope)) throw invalid("scope", "Must be the name of a scope.");
  return {
    scope,
    cost: Number(cost),
    report: only("report", "1"),
    denyWith403: only("deny", "403"),
    passUnknown: only("unknown", "pass"),
    passMissing: only("missing", "pass"),
  };
}

const invalid = (parameter: string, detail: string) =>
  new Failure("invalid_parameter", "The query has parameters that are not valid.", {
    fieldErrors: [{ parameter, detail, code: "invalid_value" }],
  });

/** The request that a proxy has received, as far as its headers say. */
export interface ForwardedRequest {
  key: string;
  method: string | undefined;
  path: string | undefined;
  ip: string | undefined;
  userAgent: string;
}

/**
 * The headers in which a proxy and its clients may send values. `CLIENT_IP_HEADER`: the one header that the proxy overwrites with the address of its
 * client.
 */
interface HeaderSettings {
  KEY_HEADERS?: string;
  CLIENT_IP_HEADER?: string;
}

const defaultKeyHeaders = "Authorization, X-API-Key";
const defaultIpHeader = "X-Real-IP";
const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
const address = /^[0-9A-Fa-f:.]{2,45}$/;

/**
 * Reads the request that a proxy has received. `suffix`: the path behind `forwardPath`, with the query, or null if there is none. Throws
 * `invalid_header` if the request has two different credentials. Never reads `X-Forwarded-For`, because its first address comes from the client.
 */
export async function forwardedRequest(
  db: Db,
  headers: Headers,
  ownMethod: string,
  suffix: string | null,
  settings: HeaderSettings,
): Promise<ForwardedRequest> {
  const keyHeaders = (settings.KEY_HEADERS || defaultKeyHeaders).split(",").map((name) => name.trim());
  const key = await credentialIn(
    db,
    keyHeaders.map((name) => headers.get(name) ?? undefined),
    keyHeaders.join(", "),
  );
  // Caddy and Traefik overwrite `X-Forwarded-*` and pass `X-Original-*` of a client on, so the former come first. Envoy sends neither.
  const ofProxy = (forwarded: string, original: string) => headers.get(forwarded) ?? headers.get(original) ?? undefined;
  const statedMethod = suffix === null ? ofProxy("X-Forwarded-Method", "X-Original-Method") : ownMethod;
  const statedPath = suffix === null ? ofProxy(...statedPathHeaders) : suffix;
  const stated = headers.get(settings.CLIENT_IP_HEADER || defaultIpHeader)?.trim() ?? "";
  return {
    key,
    method: statedMethod && method.test(statedMethod) ? statedMethod : undefined,
    path: statedPath?.slice(0, 4096),
    ip: address.test(stated) ? stated : undefined,
    userAgent: headers.get("User-Agent") ?? "",
  };
}

/** Returns whether the proxy passes a request on without a decision: it has no credential, or one that this service does not know at all. */
export const isPassed = (key: string, { passMissing, passUnknown }: ForwardOptions, isKnownForm: boolean): boolean =>
  key === "" ? passMissing : passUnknown && !looksLikeKey(key) && !isKnownForm;

/** The headers of every response that lets a request through. A proxy otherwise keeps headers of the same name from the client. */
export function verifiedHeaders(answer: VerifyAnswer | null): Record<string, string> {
  const { account, key, receipt } = answer ?? {};
  return {
    "X-Verified-Account": account?.id ?? none,
    "X-Verified-External-Id": account?.external_id ?? none,
    "X-Verified-Key": key?.id ?? none,
    "X-Verified-Scopes": key?.scopes.join(" ") || none,
    "X-Verified-Receipt": receipt ?? none,
  };
}

const none = "-";

/** The statuses of denials that nginx passes on. */
const passedByNginx = [401, 403];

/** Returns the response to a proxy: its status, headers and body. */
export function forwardResponse(
  answer: VerifyAnswer,
  { denyWith403 }: ForwardOptions,
): { status: number; headers: Record<string, string>; body: string | null } {
  if (answer.allowed) return { status: 200, headers: { ...answer.headers, ...verifiedHeaders(answer) }, body: null };
  const body = JSON.stringify(answer.problem);
  const headers = { ...answer.headers, "Content-Type": problemType, ...(denyWith403 && { "X-Verified-Problem": inAscii(body) }) };
  return { status: denyWith403 && !passedByNginx.includes(answer.status) ? 403 : answer.status, headers, body };
}

/** Returns JSON in ASCII, for a header. */
const inAscii = (json: string): string =>
  json.replaceAll(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
