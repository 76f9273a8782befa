import { ambiguousEmail, emailKeyOf } from "../identity/email.ts";
import { email } from "../inputs/values.ts";

/** The address of somebody who is to sign in. */
export const memberEmail = email.refine((value) => emailKeyOf(value) !== null, ambiguousEmail);
