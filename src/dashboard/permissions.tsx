import { createMiddleware } from "hono/factory";
import { suspended } from "../accounts/suspension.ts";
import { Failure } from "../errors.ts";
import { listMembers } from "../identity/member.ts";
import { may, type Permission, rolesWith, withheldScopes } from "../identity/roles.ts";
import { type Scope, scopes } from "../keys/scopes.ts";
import { reading } from "./acting.ts";
import { showPage } from "./components/layout.tsx";
import { type PageContext, type PageEnv, roleOf } from "./context.ts";

/** What a request needs to be allowed; "look" is open to every member. The first that matches counts, and a form that none names is nobody's. */
const needs: readonly (readonly [method: "GET" | "POST", path: RegExp, needed: Permission | "look"])[] = [
  ["POST", /^\/(?:preferences|logout|confirm\/options)$/, "look"],
  // One's own passkeys, codes and sessions; the page looks at whose they are.
  ["POST", /^\/settings\/(?:passkeys|recovery-codes|sessions)(?:\/|$)/, "look"],
  ["POST", /^\/settings\/(?:people|invitations)(?:\/|$)/, "people"],
  ["POST", /^\/settings\/sample-data$/, "account"],
  ["POST", /^\/keys(?:\/|$)/, "keys"],
  ["POST", /^\/(?:webhooks|deliveries)(?:\/|$)/, "webhooks"],
  ["GET", /^\/keys\/(?:new|[^/]+\/(?:rotate|revoke))$/, "keys"],
  ["GET", /^\/webhooks\/(?:new|[^/]+\/(?:rotate-secret|delete|redeliver))$/, "webhooks"],
  ["GET", /^\/settings\/audit(?:\.csv)?$/, "audit"],
  ["GET", /^\//, "look"],
];

const neededFor = ({ req: { method, path } }: PageContext) =>
  needs.find(([ofMethod, form]) => ofMethod === (method === "HEAD" ? "GET" : method) && form.test(path))?.[2];

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

/** What the members of a suspended account may still send. */
const isOpenToSuspended = ({ req: { path } }: PageContext) => path === "/preferences" || path === "/logout";

/** Refuses what the visitor's role does not allow, and says who may. */
export const requirePermission = createMiddleware<PageEnv>(async function requirePermission(c, next) {
  const needed = neededFor(c);
  if (c.get("visitor").account.suspendedAt !== null && c.req.method !== "GET" && c.req.method !== "HEAD" && !isOpenToSuspended(c))
    throw suspended();
  if (needed === "look" || (needed !== undefined && visitorMay(c, needed))) return next();
  // A form that the table does not name is nobody's, and so not there.
  if (needed === undefined) throw new Failure("not_found", "There is nothing at this path.");
  return showForbidden(c, needed);
});

/** The page for what the visitor may not do: who may. */
export async function showForbidden(c: PageContext, permission: Permission) {
  const roles = rolesWith(permission);
  const members = (await listMembers(reading(c))).filter(({ role }) => roles.includes(role));
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
