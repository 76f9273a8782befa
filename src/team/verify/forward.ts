import { maxCredential, splitJoined } from "../../credentials/credential-in.ts";
import { holdsForm, type SecretForm } from "../../credentials/secret-form.ts";
import type { Db } from "../../db/client.ts";
import { problemType } from "../../http/problem.ts";
import { knownForms } from "../../keys/imported/find-imported.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { clientIpIn } from "../../lib/net/ip-list.ts";
import { brand } from "../../lib/settings.ts";
import type { VerifyAnswer } from "./answers.ts";
import { credentialIn } from "./credential.ts";
import { scopeForm } from "./schemas.ts";

// Forward auth: a proxy asks about a request before it passes the request on, as nginx (`auth_request`), Caddy (`forward_auth`) and Traefik (ForwardAuth) do.
// The path, the query and nearly all headers of such a call can be the client's. Only one header cannot: the one with the service token.

/** The path of forward auth. */
export const forwardPath = "/team/v1/verify/forward";

/** The header with the service token and the options. */
export const tokenHeader = "X-Service-Token";

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

const maxTokenHeader = 1024;
const option = /^(scope|cost|report|deny|unknown|missing)=(.+)$/;
const valuesOf: Record<string, RegExp> = {
  scope: scopeForm,
  cost: /^(?:[1-9][0-9]{0,2}|1000)$/,
  report: /^1$/,
  deny: /^403$/,
  unknown: /^pass$/,
  missing: /^pass$/,
};

/**
 * Parses the header with the service token and the options: `svc_...; scope=orders:read; cost=5`. Returns an empty token if there is no header. Returns no
 * options if the header does not have exactly this form. A comma is never allowed, because it joins the header of a proxy with another one.
 */
export function parseTokenHeader(text: string): { token: string; options: ForwardOptions | null } {
  const [token = "", ...given] = text.split("; ");
  const pairs = given.map((each) => option.exec(each) ?? []).map(([, name = "", value = ""]) => [name, value] as const);
  const named = new Map(pairs);
  const isValid =
    text.length <= maxTokenHeader &&
    /^[\x20-\x7e]*$/.test(text) &&
    !/[,"]/.test(text) &&
    /^[^\s;]*$/.test(token) &&
    named.size === given.length &&
    pairs.every(([name, value]) => valuesOf[name]?.test(value));
  if (!isValid) return { token: /^[^\s;,"]*/.exec(token)?.[0] ?? "", options: null };
  return {
    token,
    options: {
      scope: named.get("scope"),
      cost: Number(named.get("cost") ?? 1),
      report: named.has("report"),
      denyWith403: named.has("deny"),
      passUnknown: named.has("unknown"),
      passMissing: named.has("missing"),
    },
  };
}

export const invalidOptions = (): Failure =>
  new Failure("invalid_header", `The header ${tokenHeader} must hold one service token, and then options: svc_...; scope=NAME; cost=N.`);

/** The request that a proxy has received, from what its headers say. */
export interface ForwardedRequest {
  key: string;
  /** The headers that may hold a key, with their values as they were sent. */
  sent: { name: string; value: string }[];
  method: string | undefined;
  path: string | undefined;
  ip: string | undefined;
  user_agent: string;
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

/**
 * Reads the request that a proxy has received. Its method and its path are for the log alone. Throws `invalid_header` if the request has two different
 * credentials. Never reads `X-Forwarded-For`, because its first address comes from the client.
 */
export async function forwardedRequest(db: Db, headers: Headers, settings: HeaderSettings): Promise<ForwardedRequest> {
  const keyHeaders = (settings.KEY_HEADERS || defaultKeyHeaders).split(",").map((name) => name.trim());
  // A header that was sent twice arrives as one value with a comma.
  const sent = keyHeaders.map((name) => ({ name: name.toLowerCase(), value: headers.get(name) ?? "" }));
  const values = sent.flatMap(({ value }) => splitJoined(value));
  const key = await credentialIn(db, values, keyHeaders.join(", "));
  // Caddy and Traefik overwrite `X-Forwarded-*` and pass `X-Original-*` of a client on, so the former come first.
  const stated = (forwarded: string, original: string) => headers.get(forwarded) ?? headers.get(original) ?? undefined;
  return {
    key,
    sent,
    method: stated("X-Forwarded-Method", "X-Original-Method"),
    path: stated("X-Forwarded-Uri", "X-Original-URI"),
    ip: clientIpIn(headers.get(settings.CLIENT_IP_HEADER || defaultIpHeader) ?? ""),
    user_agent: headers.get("User-Agent") ?? "",
  };
}

/** The ways to write a credential of somebody else. A text that is written in any other way could be a key that only the API behind the proxy finds. */
const foreignToken = /^[\w+/-]+(?:\.[\w+/-]*){0,4}={0,2}$/;
const schemed = /^(?:bearer|token|jwt|session|api-?key) (\S+)$/i;
const basic = /^basic ([0-9A-Za-z+/]+={0,2})$/i;

/** Returns the text of a credential that is written as one of somebody else, or null. */
function foreignText({ name, value }: ForwardedRequest["sent"][number]): string | null {
  if (value.length > maxCredential) return null;
  const [, encoded] = basic.exec(value) ?? [];
  if (encoded !== undefined) {
    const decoded = Buffer.from(encoded, "base64").toString("utf8");
    // Servers differ in how they read other bytes, and in what they decode or remove.
    return Buffer.from(decoded).toString("base64") === encoded && /^[!-$&-;=?-}]*$/.test(decoded) ? decoded : null;
  }
  // In another header than `Authorization`, a credential has no scheme.
  const text = name === "authorization" ? (schemed.exec(value)?.[1] ?? "") : value;
  return foreignToken.test(text) ? text : null;
}

const base64Decoded = (text: string): string => Buffer.from(text, "base64").toString("latin1");

/** The beginnings of keys of this service, in lower case. */
const ownPrefixes = brand.keyPrefixes.map((prefix) => `${prefix}_`);

/** Returns whether a text holds text in the form of a key, at any place. A server may decode the text, or a part of it, before it looks for a key. */
function holdsKey(text: string, forms: readonly SecretForm[]): boolean {
  const encoded = new Set([text, text.replaceAll(/[-_.]/g, ""), ...text.split(".")]);
  return [text, ...[...encoded].map(base64Decoded)].some(
    (reading) => ownPrefixes.some((prefix) => reading.toLowerCase().includes(prefix)) || forms.some((form) => holdsForm(reading, form)),
  );
}

/**
 * Returns whether the credentials of a request can only be those of somebody else, for example of a session. The API behind the proxy may find a key where this
 * service does not look for one, so a text that is not plainly foreign never passes.
 */
export async function isForeign(db: Db, { sent }: Pick<ForwardedRequest, "sent">, now: number): Promise<boolean> {
  const texts = sent.filter(({ value }) => value !== "").map(foreignText);
  if (texts.some((text) => text === null)) return false;
  const forms = await knownForms(db, now);
  return !texts.some((text) => holdsKey(text ?? "", forms));
}

/** Returns whether no header has anything but the name of a scheme. */
const isEmpty = (sent: ForwardedRequest["sent"]): boolean =>
  sent.every(({ value }) => /^(?:(?:bearer|basic|token|api-?key)\s*)?$/i.test(value.trim()));

/** Returns whether the proxy passes a request on without a decision: it has no credential, or one that can only be somebody else's. */
export const isPassed = (
  { key, sent }: Pick<ForwardedRequest, "key" | "sent">,
  { passMissing, passUnknown }: ForwardOptions,
  isOfOthers: boolean,
): boolean => (key === "" ? passMissing && isEmpty(sent) : passUnknown && isOfOthers);

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
  answer: Pick<VerifyAnswer, "allowed" | "status" | "headers" | "problem"> & Partial<VerifyAnswer>,
  { denyWith403 }: Pick<ForwardOptions, "denyWith403">,
): { status: number; headers: Record<string, string>; body: string | null } {
  if (answer.allowed) return { status: 200, headers: { ...answer.headers, ...verifiedHeaders(answer as VerifyAnswer) }, body: null };
  const body = JSON.stringify(answer.problem);
  const headers = { ...answer.headers, "Content-Type": problemType, ...(denyWith403 && { "X-Verified-Problem": inAscii(body) }) };
  return { status: denyWith403 && !passedByNginx.includes(answer.status) ? 403 : answer.status, headers, body };
}

/** Returns JSON in ASCII, for a header. */
const inAscii = (json: string): string =>
  json.replaceAll(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
