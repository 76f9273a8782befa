import { createHash } from "node:crypto";
import { isIP } from "node:net";

// What a client sends about a request. Path, method and address only describe it: they are cut or left out, and never lead to a denial.

const maxPath = 1024;
/** A shorter text is no secret. */
const minSecret = 4;
const methodForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
/** The schemes that are followed by the credential itself. */
const scheme = /^(?:bearer|token|api-?key)(?:\s+|$)/i;
/** The form in which Rails sends a token. */
const tokenParameter = /(?:^|[\s;,])token=(?:"([^"]*)"|([^\s;,]*))/gi;
const basic = /^basic(?:\s+|$)/i;

/** Returns an address without port, brackets and zone, and an IPv4 address without its IPv6 form. Returns an empty string for other text. */
export function addressIn(text) {
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(String(text ?? "").trim()) ?? [];
  const [address] = (bracketed ?? String(text ?? "").trim()).split("%");
  const [host, port] = address.split(":");
  const plain = port !== undefined && isIP(host) === 4 && /^[\d.]+:\d+$/.test(address) ? host : address;
  const ipv4 = plain.replace(/^::ffff:(?=[\d.]+$)/i, "");
  return isIP(ipv4) === 0 ? "" : ipv4;
}

/** Returns a path without its query, cut so that no encoded character is broken. */
const cutPath = (path) =>
  String(path ?? "")
    .split("?")[0]
    .slice(0, maxPath)
    .replace(/%[0-9A-Fa-f]?$/, "");

/** Returns the members of a call to verify. Leaves out what the Worker would not accept as a description. */
export function described({ method, path, ip, ...rest }) {
  const shown = cutPath(path);
  const address = addressIn(ip);
  return { ...rest, ...(methodForm.test(method ?? "") && { method }), ...(shown && { path: shown }), ...(address && { ip: address }) };
}

/** Returns whether a key with these scopes may do what a request needs. */
export const hasScopes = (own, { scope, scopes: { all = [], any = [] } = {} }) =>
  [...(scope ? [scope] : []), ...all].every((each) => own.includes(each)) && (any.length === 0 || any.some((each) => own.includes(each)));

/** Splits the values of a header that was sent several times. A value with parameters, like `Token token="...", nonce="..."`, stays one. */
const splitJoined = (value) => value.split(/,(?!\s*[\w-]+=[^,=])/);

/** Returns the tokens in a credential, without its scheme. Only the form of Rails can have several. */
function tokensOf(value) {
  const text = value.trim();
  if (!scheme.test(text)) return [text];
  const token = text.replace(scheme, "").trim();
  if (!/^token=/i.test(token)) return [token];
  return [...token.matchAll(tokenParameter)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}

/** Calls a function after a time, in milliseconds, which does not keep the process alive. */
export function later(run, ms) {
  const timer = setTimeout(run, ms);
  timer.unref?.();
  return timer;
}

/** Returns the token in a credential. */
export const tokenOf = (key) => tokensOf(key).find(Boolean) ?? "";

/** Returns the id under which this process knows a credential. The text itself is never kept. */
export const idOf = (key) => createHash("sha256").update(tokenOf(key)).digest("base64");

/** Returns what may be the credential in the value of a header: the token, or the user and the password of `Basic`. */
function credentialsIn(value) {
  const text = value.trim();
  if (!basic.test(text)) return tokensOf(text).filter(Boolean);
  const [user, ...password] = Buffer.from(text.replace(basic, ""), "base64").toString("utf8").split(":");
  return [user, password.join(":")].filter(Boolean);
}

/** Returns a path in which no credential can be read. `values`: those of the headers in which it may be. */
export function withoutCredentials(path, values) {
  const secrets = values
    .flatMap(splitJoined)
    .flatMap(credentialsIn)
    .filter(({ length }) => length >= minSecret);
  const shown = secrets.reduce((text, secret) => text.replaceAll(secret, "***"), path);
  // A client can encode characters of it.
  const plain = shown.replaceAll(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return secrets.some((secret) => plain.includes(secret)) ? "/***" : shown;
}

/** Returns the one credential in the values of headers, an empty string if there is none, or null if there are two different ones. */
export function credentialOf(values) {
  const filled = values.flatMap(splitJoined).filter((value) => credentialsIn(value).length > 0);
  if (filled.some((value) => !basic.test(value.trim()) && new Set(credentialsIn(value)).size > 1)) return null;
  const common = filled
    .map(credentialsIn)
    .reduce((left, right) => left.filter((each) => right.includes(each)), credentialsIn(filled[0] ?? ""));
  if (filled.length > 0 && common.length === 0) return null;
  // Only the Worker can tell which part of `Basic` is the credential.
  return filled.find((value) => basic.test(value.trim())) ?? filled[0] ?? "";
}
