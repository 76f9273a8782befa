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
 * What is derived from a name and an address: two addresses that differ in case alone are one. Letters of every script are folded, unlike in
 * the addresses of members. A user grants nothing, and two that fold alike (`k` and the Kelvin sign) are a conflict, never a match.
 */
export const searchable = ({ name, email }: { name: string; email: string }) => ({
  emailKey: email.toLowerCase(),
  searchText: `${name}\n${email}`.toLowerCase(),
});
