import { Failure } from "../lib/errors/failure.ts";

// Cloudflare Access identifies a member by email address. Identity providers and mail systems differ in how they change the case of
// non-ASCII letters. For example, some systems change the Kelvin sign (U+212A) to "k". The address of one person could then match the
// address of another person.

const hasAscii = (text: string): boolean => /\p{ASCII}/u.test(text);

/** Returns whether a character is not ASCII, but becomes ASCII when converted to upper case, lower case or compatibility form (NFKC). */
const foldsToAscii = (character: string): boolean =>
  !hasAscii(character) && [character.toLowerCase(), character.toUpperCase(), character.normalize("NFKC")].some(hasAscii);

/**
 * Returns the key for comparing an email address with other addresses. In the key, ASCII letters are in lower case and all other characters
 * are unchanged, as with `lower` in SQLite. Returns null if the address contains a character that some systems convert to ASCII. No member
 * can have an address with such a character.
 */
export const emailKeyOf = (email: string): string | null =>
  [...email].some(foldsToAscii) ? null : email.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/** The error message for an email address with a character that some systems convert to ASCII. */
export const ambiguousEmail = "Must not contain letters that can be read as A to Z or a to z.";

/**
 * Returns the key for comparing a new member's address with other addresses. Throws `invalid_body` if the address contains a character that
 * some systems convert to ASCII.
 */
export function requireEmailKey(email: string): string {
  const key = emailKeyOf(email);
  if (key === null) throw new Failure("invalid_body", `The email address: ${ambiguousEmail}`);
  return key;
}
