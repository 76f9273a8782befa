import { email } from "../http/inputs/values.ts";
import { ambiguousEmail, emailKeyOf } from "../identity/email.ts";

/** The address of somebody who is to sign in. */
export const memberEmail = email.refine((value) => emailKeyOf(value) !== null, ambiguousEmail);
