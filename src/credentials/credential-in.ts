import { looksLikeKey } from "./key-format.ts";
import { hasForm, type SecretForm } from "./secret-form.ts";

/** The longest text that is read for a credential, in characters. Longer text is a credential that nobody has. */
export const maxCredential = 4096;

/** Divides a value at its first white space. Expressions for this would be slow for hostile text, and every request without a key pays for them. */
function schemeAndRest(value: string): [scheme: string, rest: string] {
  const at = value.search(/\s/);
  return at < 0 ? [value, ""] : [value.slice(0, at), value.slice(at).trim()];
}

/** Returns the user and the password in a value of `Basic`, or null for another value. An absent part is an empty string. */
function partsOfBasic(value: string): [user: string, password: string] | null {
  const [scheme, encoded] = schemeAndRest(value);
  if (value.length > maxCredential || scheme.toLowerCase() !== "basic") return null;
  const decoded = Buffer.from(encoded, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  return colon < 0 ? [decoded, ""] : [decoded.slice(0, colon), decoded.slice(colon + 1)];
}

/** Returns whether only the registered forms can tell which part of a value is the credential: both parts of `Basic` are filled. */
export function needsForms(value: string | undefined): boolean {
  const [user, password] = partsOfBasic(value?.trim() ?? "") ?? ["", ""];
  return user !== "" && password !== "";
}

/** The schemes that are followed by the credential itself. Packages differ in how they write them. */
const scheme = /^(?:bearer|token|api-?key)(?:\s+|$)/i;
/** The form in which Rails sends a token. */
const tokenParameter = /(?:^|[\s;,])token=(?:"([^"]*)"|([^\s;,]*))/gi;

/** Splits the values of a header that was sent several times. A value with parameters, like `Token token="...", nonce="..."`, stays one. */
export const splitJoined = (value: string): string[] => (value.length > maxCredential ? [value] : value.split(/,(?!\s*[\w-]+=[^,=])/));

/**
 * Returns the credentials in the value of a header: the token after `Bearer`, `Api-Key` or `Token`, the user or the password of `Basic`, or the whole text. If
 * both parts of `Basic` are filled, the part that has the form of a key counts, else the password. If both parts have the form of a key, both count.
 */
function credentialsOf(value: string, forms: readonly SecretForm[]): string[] {
  const text = value.trim();
  if (text.length > maxCredential) return [text];
  if (scheme.test(text)) {
    const token = text.replace(scheme, "").trim();
    const parameters = [...token.matchAll(tokenParameter)].map(([, quoted, plain]) => quoted ?? plain ?? "");
    return /^token=/i.test(token) ? parameters : [token];
  }
  const basic = partsOfBasic(text);
  if (basic === null) return [text];
  const isCredential = (part: string) => looksLikeKey(part) || forms.some((form) => hasForm(part, form));
  const [user, password] = basic;
  if (isCredential(user) && isCredential(password)) return [user, password];
  return [isCredential(user) || password === "" ? user : password];
}

/**
 * Returns the different credentials in the values of several headers. Headers without a credential are left out. `forms`: the registered forms of secrets,
 * which only values of `Basic` need.
 */
export const credentialsIn = (values: readonly (string | undefined)[], forms: readonly SecretForm[]): string[] => [
  ...new Set(values.flatMap((value) => credentialsOf(value ?? "", forms)).filter((credential) => credential !== "")),
];
