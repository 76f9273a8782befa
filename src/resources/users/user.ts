import { folded } from "../../lib/inputs/fold.ts";
import type { users } from "./tables.ts";

export type User = typeof users.$inferSelect;

export const roles = ["admin", "member", "viewer"] as const;
export const userStatuses = ["active", "suspended"] as const;

export interface NewUser {
  name: string;
  email: string;
  role?: User["role"] | undefined;
  status?: User["status"] | undefined;
}

/**
 * Returns the columns that are derived from a name and an email address. Two addresses that differ only in upper and lower case count as
 * the same address. This function converts the letters of all alphabets to lower case. The email addresses of members are treated
 * differently: only their ASCII letters are converted. Two different addresses can become equal, for example if one has a `k` where the
 * other has the Kelvin sign. Equal addresses cause a conflict error. Equal addresses are no security risk, because the record of a user
 * gives nobody access.
 */
export const searchable = ({ name, email }: { name: string; email: string }) => ({
  emailKey: email.toLowerCase(),
  searchText: folded(`${name}\n${email}`),
});
