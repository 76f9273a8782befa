import { ambiguousEmail, emailKeyOf } from "../identity/email.ts";
import { email } from "../lib/inputs/values.ts";

/** Validates the email address of a future member. Rejects non-ASCII letters that identity providers may convert to ASCII letters. */
export const memberEmail = email.refine((value) => emailKeyOf(value) !== null, ambiguousEmail);
