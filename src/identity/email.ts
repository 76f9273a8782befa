import { Failure } from "../errors/failure.ts";

// Cloudflare Access identifies a member by email address. Identity providers and mail systems differ in how they change the case of non-ASCII
// letters. For example, some systems change U+212A (Kelvin sign) to "k", so one person's address could match the address of another person.

const hasAscii = (text: string): boolean => /\p{ASCII}/u.test(text);

/** Returns whether a non-ASCII character becomes an ASCII character in upper case, in lower case or in compatibility form (NFKC). */
const foldsToAscii = (character: string): boolean =>
  !hasAscii(character) && [character.toLowerCase(), character.toUpperCase(), character.normalize("NFKC")].some(hasAscii);

/**
 * Returns the comparison key of an address. In the key, ASCII letters are in lower case and all other characters are unchanged, as with `lower` in
 * SQLite. Returns null for an address with a character that could be read as an ASCII letter. No member can have such an address.
 */
export const emailKeyOf = (email: string): string | null =>
  [...email].some(foldsToAscii) ? null : email.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/** The error message for an email address with a character that could be read as an ASCII letter. */
export const ambiguousEmail = "Must not contain letters that can be read as A to Z or a to z.";

/** Returns the comparison key of a new member's address. Throws `invalid_body` if a character of the address could be read as an ASCII letter. */
export function requireEmailKey(email: string): string {
  const key = emailKeyOf(email);
  if (key === null) throw new Failure("invalid_body", `The email address: ${ambiguousEmail}`);
  return key;
}
