import { members } from "./tables.ts";

export const roles = members.role.enumValues;
export type Role = (typeof roles)[number];

/** What a member may do besides looking. */
export type Permission = "keys" | "webhooks" | "people" | "owners" | "audit" | "account";

const permissions: Record<Role, readonly Permission[]> = {
  viewer: [],
  developer: ["keys", "webhooks"],
  admin: ["keys", "webhooks", "people", "audit", "account"],
  owner: ["keys", "webhooks", "people", "owners", "audit", "account"],
};

export const may = (role: Role, permission: Permission): boolean => permissions[role].includes(permission);

/** The roles whose members may do this, the highest first. */
export const rolesWith = (permission: Permission): Role[] => roles.filter((role) => may(role, permission));

/** Whether a member of one role may invite and remove those of another, and end their sessions: owners all, admins viewers and developers. */
export const mayManage = (own: Role, other: Role): boolean =>
  may(own, "owners") || (may(own, "people") && (other === "viewer" || other === "developer"));

/** The roles that a member of this one may invite to, and whose members they may remove. */
export const managedBy = (own: Role): Role[] => roles.filter((other) => mayManage(own, other));

/** Scopes that keys of a member may not have. */
export const withheldScopes = (role: Role): readonly string[] => (role === "developer" ? ["audit:read", "keys:write"] : []);
