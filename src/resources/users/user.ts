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
 * Returns the columns that are derived from a name and an email address. Addresses that differ only in case are the same address. This function
 * converts letters of every script to lower case. In the email addresses of members, only ASCII letters are converted. Two addresses may become
 * equal, for example if they differ only in `k` and the Kelvin sign. Equal addresses only cause a conflict error, because the record of a user gives
 * nobody access.
 */
export const searchable = ({ name, email }: { name: string; email: string }) => ({
  emailKey: email.toLowerCase(),
  searchText: `${name}\n${email}`.toLowerCase(),
});
