import { suspended } from "../accounts/suspension.ts";
import { Failure } from "../errors/failure.ts";
import { listMembers } from "../identity/member.ts";
import { may, type Permission, rolesWith, withheldScopes } from "../identity/roles.ts";
import { type Scope, scopes } from "../keys/scopes.ts";
import { readContext } from "./acting.ts";
import { showPage } from "./components/layout.tsx";
import { type PageContext, roleOf } from "./context.ts";

export const visitorMay = (c: PageContext, permission: Permission): boolean => may(roleOf(c.get("visitor")), permission);

/** The scopes that keys may have whose secrets the visitor comes to know. */
export const grantableScopes = (c: PageContext): readonly Scope[] => {
  const withheld = withheldScopes(roleOf(c.get("visitor")));
  return scopes.filter((scope) => !withheld.includes(scope));
};

/** Whether the visitor may change a key with these scopes, or come to use it. */
export const mayTouch = (c: PageContext, touched: readonly string[]): boolean => {
  const grantable: readonly string[] = grantableScopes(c);
  return visitorMay(c, "keys") && touched.every((scope) => grantable.includes(scope));
};

/** Throws `forbidden` for a key with a scope that the visitor's role may not give, or come to use. */
export function requireGrantableScopes(c: PageContext, touched: readonly string[]): void {
  const grantable: readonly string[] = grantableScopes(c);
  const missing = touched.filter((scope) => !grantable.includes(scope));
  if (missing.length > 0)
    throw new Failure(
      "forbidden",
      `Your role is ${roleOf(c.get("visitor"))}, which may not give a key ${missing.join(" and ")}. Ask an admin or an owner.`,
    );
}

/** Whether members of a suspended account may still send it. */
const isOpenToSuspended = ({ req: { path } }: PageContext) => path === "/logout";

/**
 * Returns the page that says who may do this, if the visitor's role has no such permission (null: any member may). Throws `account_suspended` for a change in
 * a suspended account.
 */
export async function requirePermission(c: PageContext, permission: Permission | null): Promise<Response | null> {
  if (c.get("visitor").account.suspendedAt !== null && c.req.method !== "GET" && c.req.method !== "HEAD" && !isOpenToSuspended(c))
    throw suspended();
  return permission === null || visitorMay(c, permission) ? null : showForbidden(c, permission);
}

/** The page for what the visitor may not do: who may. */
export async function showForbidden(c: PageContext, permission: Permission) {
  const roles = rolesWith(permission);
  const members = (await listMembers(readContext(c))).filter(({ role }) => roles.includes(role));
  return showPage(
    c,
    { title: "Not allowed", status: 403 },
    <section class="panel">
      <p role="alert">
        Your role is {roleOf(c.get("visitor"))}, which may not do this. It takes one of: {roles.toReversed().join(", ")}.
      </p>
      {members.length > 0 && (
        <>
          <p>Ask one of them:</p>
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
