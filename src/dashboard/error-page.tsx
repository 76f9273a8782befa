import type { Context } from "hono";
import { type Failure, failures } from "../errors.ts";
import { newId } from "../ids.ts";
import { Page } from "./layout.tsx";

/** The page for what went wrong outside the API: what it is, where to go, and the id to ask about. */
export function errorPage(c: Context, failure: Failure): Response | Promise<Response> {
  const { status, title } = failures[failure.code];
  const requestId = c.res.headers.get("X-Request-Id") ?? newId("req", Date.now());
  c.header("X-Request-Id", requestId);
  return c.html(
    <Page title={title}>
      <section class="panel notice">
        <h1>{title}</h1>
        <p>{failure.message}</p>
        <p>
          <a href="/">Go to the overview</a>
        </p>
        <p class="quiet">
          Request <code>{requestId}</code>
        </p>
      </section>
    </Page>,
    status,
  );
}
