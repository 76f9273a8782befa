import { Hono } from "hono";
import { connect } from "../db/client.ts";
import type { AppContext, AppEnv } from "../http/context.ts";
import { isLoopback } from "../loopback.ts";
import { Page } from "./components/layout.tsx";
import { overviewPage } from "./pages/overview.tsx";

/** The overview's pages. */
export function createDashboard() {
  const dashboard = new Hono<AppEnv>();
  dashboard.get("/", async (c) => {
    if (!isOpen(c)) return c.html(<Closed />, 403);
    const now = Date.now();
    return c.html(await overviewPage({ db: connect(c.env.DB), guards: c.env.KEY_GUARD, now }, c.req.query("account")));
  });
  return dashboard;
}

/**
 * Open in a local build alone, to whoever sits at the machine: under a loopback name, and asked for by the browser's address bar or by
 * a page of the same origin. A page of elsewhere that points its own name here (DNS rebinding) can make the local runtime believe in
 * another host, by a header; it cannot set `Sec-Fetch-Site`, which a browser sends to localhost and not to such a name.
 */
function isOpen(c: AppContext): boolean {
  const site = c.req.header("Sec-Fetch-Site");
  return c.get("isLocal") && isLoopback(c.get("url").hostname) && (site === "none" || site === "same-origin");
}

const Closed = () => (
  <Page title="Closed">
    <section class="panel notice">
      <h1>The overview is closed</h1>
      <p>It opens only in a browser on the machine that runs it, under localhost. The API answers as ever.</p>
    </section>
  </Page>
);
