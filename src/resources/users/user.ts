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
 * Returns the columns that are derived from a name and an email address. Addresses that differ only in case are the same address. Letters of every
 * script are converted to lower case here, but only ASCII letters in the email addresses of members. Addresses that become equal, for example by `k`
 * and the Kelvin sign, only cause a conflict, because users grant no access.
 */
export const searchable = ({ name, email }: { name: string; email: string }) => ({
  emailKey: email.toLowerCase(),
  searchText: `${name}\n${email}`.toLowerCase(),
});
