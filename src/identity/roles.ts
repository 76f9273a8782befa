import { members } from "../db/areas/identity/tables.ts";

export const roles = members.role.enumValues;
export type Role = (typeof roles)[number];

/** A permission that a role can have. Viewing the overview needs no permission, so every role can view it. */
export type Permission = "keys" | "webhooks" | "members" | "owners" | "audit" | "account";

const permissions: Record<Role, readonly Permission[]> = {
  viewer: [],
  developer: ["keys", "webhooks"],
  admin: ["keys", "webhooks", "members", "audit", "account"],
  owner: ["keys", "webhooks", "members", "owners", "audit", "account"],
};

export const may = (role: Role, permission: Permission): boolean => permissions[role].includes(permission);

/** The permissions that a member who came by a portal link never has: the team decides who comes by its links, and nobody invites others there. */
export const withheldFromPortal: readonly Permission[] = ["members", "owners"];

/** Returns the roles that have a permission, highest first. */
export const rolesWith = (permission: Permission): Role[] => roles.filter((role) => may(role, permission));

/**
 * Returns whether a member with the role `own` may manage members with the role `other`. To manage members means to invite members, to
 * remove members and to end their sessions. Owners manage all roles, and admins manage viewers and developers.
 */
export const mayManage = (own: Role, other: Role): boolean =>
  may(own, "owners") || (may(own, "members") && (other === "viewer" || other === "developer"));

export const managedBy = (own: Role): Role[] => roles.filter((other) => mayManage(own, other));

/**
 * Returns the scopes that a role may not grant. A member with the role may not create, change or use keys that have any of these scopes.
 */
export const withheldScopes = (role: Role): readonly string[] => (role === "developer" ? ["audit:read", "keys:write"] : []);
