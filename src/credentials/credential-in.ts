import { looksLikeKey } from "./key-format.ts";
import { hasRememberedForm } from "./secret-form.ts";

/**
 * Returns the credentials in the value of an `Authorization` header or of another header: the token after `Bearer`, the user or the password of
 * `Basic`, or the whole text. If both parts of `Basic` are filled, the part that has the form of a key counts, else the password. If both parts have
 * the form of a key, both count.
 */
function credentialsOf(value: string): string[] {
  const text = value.trim();
  const [, scheme = "", rest = ""] = /^(bearer|basic)(?: +(.*))?$/i.exec(text) ?? [];
  if (scheme.toLowerCase() === "bearer") return [rest.trim()];
  if (scheme.toLowerCase() !== "basic") return [text];
  const decoded = Buffer.from(rest.trim(), "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  const [user, password] = colon < 0 ? [decoded, ""] : [decoded.slice(0, colon), decoded.slice(colon + 1)];
  if (isCredential(user) && isCredential(password)) return [user, password];
  return [isCredential(user) || password === "" ? user : password];
}

/** Returns whether a text has the form of a key: of this service, or one that the team has registered and this isolate knows. */
const isCredential = (text: string): boolean => looksLikeKey(text) || hasRememberedForm(text);

/** Returns whether the credentials in these values can only be told apart with the registered forms: both parts of `Basic` are filled. */
export const needForms = (values: readonly (string | undefined)[]): boolean =>
  values.some((value) => /^basic +./i.test(value?.trim() ?? ""));

/** Returns the different credentials in the values of several headers. Headers without a credential are left out. */
export const credentialsIn = (values: readonly (string | undefined)[]): string[] => [
  ...new Set(values.flatMap((value) => credentialsOf(value ?? "")).filter((credential) => credential !== "")),
];
