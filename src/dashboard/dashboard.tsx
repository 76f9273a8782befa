import { Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { connect } from "../db/client.ts";
import { newId } from "../ids.ts";
import { Page } from "./layout.tsx";
import { overviewPage } from "./overview-page.tsx";

const pageHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** What every page is sent with. */
export const withPageHeaders = createMiddleware(async function withPageHeaders(c, next) {
  await next();
  for (const [name, value] of Object.entries(pageHeaders)) c.res.headers.set(name, value);
  if (!c.res.headers.has("X-Request-Id")) c.res.headers.set("X-Request-Id", newId("req", Date.now()));
});

/** A name that leads to this machine alone. A page of elsewhere that points its own name here is refused by it. */
const isLoopback = (hostname: string) => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname) || hostname.endsWith(".localhost");

/** The overview's pages. Open in a local build under a loopback name, closed anywhere else until there is a sign-in. */
export function createDashboard({ isLocal }: { isLocal: boolean }) {
  const dashboard = new Hono<{ Bindings: Env }>();
  dashboard.get("/", async (c) => {
    if (!isLocal || !isLoopback(new URL(c.req.url).hostname)) return c.html(<Closed />, 403);
    const now = Date.now();
    return c.html(await overviewPage({ db: connect(c.env.DB), guards: c.env.KEY_GUARD, now }, c.req.query("account")));
  });
  return dashboard;
}

const Closed = () => (
  <Page title="Closed">
    <section class="panel notice">
      <h1>The overview is closed</h1>
      <p>It opens only on the machine that runs it, under localhost. The API answers as ever.</p>
    </section>
  </Page>
);
