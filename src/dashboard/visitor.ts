import { getCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import { listAccounts } from "../accounts/account.ts";
import { connect } from "../db/client.ts";
import { isLoopback } from "../loopback.ts";
import type { PageContext, PageEnv } from "./context.ts";
import { closedPage, noAccountPage } from "./pages/closed.tsx";

/**
 * Open in a local build alone, to whoever sits at the machine: under a loopback name, and asked for by the browser's address bar or by
 * a page of the same origin. A page of elsewhere that points its own name here (DNS rebinding) can make the local runtime believe in
 * another host, by a header; it cannot set `Sec-Fetch-Site`, which a browser sends to localhost and not to such a name.
 */
function isOpen(c: PageContext): boolean {
  const site = c.req.header("Sec-Fetch-Site");
  return c.get("isLocal") && isLoopback(c.get("url").hostname) && (site === "none" || site === "same-origin");
}

/** Finds out who looks at a page, and at whose account. Nobody else gets past it. */
export const admitVisitor = createMiddleware<PageEnv>(async function admitVisitor(c, next) {
  if (!isOpen(c)) return closedPage(c);
  const accounts = await listAccounts(connect(c.env.DB));
  const wanted = c.req.query("account") ?? getCookie(c, "account");
  const account = accounts.find(({ id }) => id === wanted) ?? accounts[0];
  if (!account) return noAccountPage(c);
  c.set("visitor", { account, accounts });
  return next();
});
