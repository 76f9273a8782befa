import { suspended } from "../../accounts/suspension.ts";
import { listMembers } from "../../identity/member.ts";
import { may, type Permission, type Role, rolesWith, withheldFromPortal, withheldScopes } from "../../identity/roles.ts";
import { type Scope, scopes } from "../../keys/scopes.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { showPage } from "../components/layout.tsx";
import { type PageContext, returnUrlOf, roleOf } from "../context.ts";
import { contextOf } from "../operation-contexts.ts";

export const visitorMay = (c: PageContext, permission: Permission): boolean =>
  may(roleOf(c.get("visitor")), permission) && !(returnUrlOf(c.get("visitor")) !== null && withheldFromPortal.includes(permission));

/** Returns whether the visitor may read events of all given types. Some types need a permission, because they say what members did. */
export function mayReadEvents(c: PageContext, ...types: string[]): boolean {
  const { scopes } = contextOf(c);
  return scopes === null || eventCatalogue.scopesFor(types).every((scope) => scopes.includes(scope));
}

/** Returns the scopes that the visitor's role may grant to keys. */
export const grantableScopes = (c: PageContext): readonly Scope[] => {
  const withheld = withheldScopes(roleOf(c.get("visitor")));
  return scopes.filter((scope) => !withheld.includes(scope));
};

/** Returns whether the visitor may change, rotate or enable a key with the given scopes. */
export const mayTouch = (c: PageContext, touched: readonly string[]): boolean => {
  const withheld: readonly string[] = withheldScopes(roleOf(c.get("visitor")));
  return visitorMay(c, "keys") && !touched.some((scope) => withheld.includes(scope));
};

/** Returns roles as the start of a sentence, for example "An admin or an owner". */
export function anyOf(of: readonly Role[]): string {
  const named = of.map((role) => `${/^[aeiou]/.test(role) ? "an" : "a"} ${role}`);
  const text = named.length === 1 ? (named[0] ?? "") : `${named.slice(0, -1).join(", ")} or ${named.at(-1)}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns who may change a key with the given scopes, as the start of a sentence. */
export const whoMayTouch = (touched: readonly string[]): string =>
  anyOf(rolesWith("keys").filter((role) => !touched.some((scope) => withheldScopes(role).includes(scope))));

/** Throws `forbidden` if the visitor's role may not grant one of the given scopes. */
export function requireGrantableScopes(c: PageContext, touched: readonly string[]): void {
  const withheld: readonly string[] = withheldScopes(roleOf(c.get("visitor")));
  const missing = touched.filter((scope) => withheld.includes(scope));
  if (missing.length > 0)
    throw new Failure(
      "forbidden",
      `Your role is ${roleOf(c.get("visitor"))}, which may not give a key these scopes: ${missing.join(" and ")}. Ask an admin or an owner.`,
    );
}

/**
 * Returns the "Not allowed" page if the visitor's role lacks the permission, otherwise null. If `permission` is null, any role is allowed.
 * Throws `account_suspended` for a change in a suspended account.
 */
export async function requirePermission(c: PageContext, permission: Permission | null): Promise<Response | null> {
  if (c.get("visitor").account.suspendedAt !== null && c.req.method !== "GET" && c.req.method !== "HEAD") throw suspended();
  return permission === null || visitorMay(c, permission) ? null : showForbidden(c, permission);
}

/** Responds with the "Not allowed" page, which lists the members who have the permission. */
export async function showForbidden(c: PageContext, permission: Permission) {
  const roles = rolesWith(permission);
  const members = (await listMembers(contextOf(c))).filter(
    ({ role, externalId }) => roles.includes(role) && (externalId === null || !withheldFromPortal.includes(permission)),
  );
  return showPage(
    c,
    { title: "Not allowed", status: 403 },
    <section class="panel">
      <p role="alert">
        {may(roleOf(c.get("visitor")), permission) ? (
          <>You came here from another app. To manage members, sign in with a passkey, with one of these roles: </>
        ) : (
          <>Your role is {roleOf(c.get("visitor"))}. This role does not allow the action. The action requires one of these roles: </>
        )}
        {roles.toReversed().join(", ")}.
      </p>
      {members.length > 0 && (
        <>
          <p>Ask one of these members:</p>
          <ul class="lines">
            {members.map(({ name, email, role }) => (
              <li>
                <bdi>{name}</bdi> <span class="break">{email}</span> <span class="quiet">{role}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>,
  );
}
