import { looksLikeKey } from "./key-format.ts";

/**
 * Returns the credentials in the value of an `Authorization` header or of another header: the token after `Bearer`, the user or the password of
 * `Basic`, or the whole text. If both parts of `Basic` are filled, the part that looks like a key of this service counts, else the password. If both parts
 * look like keys, both count.
 */
function credentialsOf(value: string): string[] {
  const text = value.trim();
  const [, scheme = "", rest = ""] = /^(bearer|basic)(?: +(.*))?$/i.exec(text) ?? [];
  if (scheme.toLowerCase() === "bearer") return [rest.trim()];
  if (scheme.toLowerCase() !== "basic") return [text];
  const decoded = Buffer.from(rest.trim(), "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  const [user, password] = colon < 0 ? [decoded, ""] : [decoded.slice(0, colon), decoded.slice(colon + 1)];
  if (looksLikeKey(user) && looksLikeKey(password)) return [user, password];
  return [looksLikeKey(user) || password === "" ? user : password];
}

/** Returns the different credentials in the values of several headers. Headers without a credential are left out. */
export const credentialsIn = (values: readonly (string | undefined)[]): string[] => [
  ...new Set(values.flatMap((value) => credentialsOf(value ?? "")).filter((credential) => credential !== "")),
];
