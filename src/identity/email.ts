import { Failure } from "../errors/failure.ts";

// The address of a member tells who comes in through Cloudflare Access. Identity providers and mail systems fold the case of letters beyond
// ASCII each in their own way. U+212A (Kelvin sign) becomes "k" in some, so one person's address could pass for another's.

const hasAscii = (text: string): boolean => /\p{ASCII}/u.test(text);

/** Whether a character beyond ASCII becomes an ASCII one in upper case, in lower case or in its compatible form (NFKC). */
const foldsToAscii = (character: string): boolean =>
  !hasAscii(character) && [character.toLowerCase(), character.toUpperCase(), character.normalize("NFKC")].some(hasAscii);

/**
 * Returns what an address is compared by: its ASCII letters in lower case, the rest as it is, as `lower` of SQLite has it. Null for an address
 * that no member can have, since a letter of it could be read as an ASCII one.
 */
export const emailKeyOf = (email: string): string | null =>
  [...email].some(foldsToAscii) ? null : email.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Why an address is refused where a member's is typed. */
export const ambiguousEmail = "Must not have letters that can be read as A to Z or a to z.";

/** The same for an address that somebody is to have. Throws `invalid_body`. */
export function requireEmailKey(email: string): string {
  const key = emailKeyOf(email);
  if (key === null) throw new Failure("invalid_body", `The email address: ${ambiguousEmail}`);
  return key;
}
