import type { users } from "../db/schema-main.ts";

export type User = typeof users.$inferSelect;

export const roles = ["admin", "member", "viewer"] as const;
export const userStatuses = ["active", "suspended"] as const;

export interface NewUser {
  name: string;
  email: string;
  role?: User["role"] | undefined;
  status?: User["status"] | undefined;
}

/** What is derived from a name and an address: two addresses that differ in case alone are one. */
export const searchable = ({ name, email }: { name: string; email: string }) => ({
  emailKey: email.toLowerCase(),
  searchText: `${name}\n${email}`.toLowerCase(),
});
