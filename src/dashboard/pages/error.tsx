import { type Failure, failures } from "../../errors.ts";
import type { AppContext } from "../../http/context.ts";
import { Page } from "../components/layout.tsx";

/** The page for what went wrong outside the API: what it is, where to go, and the id to ask about. */
export function errorPage(c: AppContext, failure: Failure): Response | Promise<Response> {
  const { status, title } = failures[failure.code];
  return c.html(
    <Page title={title}>
      <main class="panel notice">
        <h1>{title}</h1>
        <p role="alert">{failure.message}</p>
        <p>
          {status >= 500 && (
            <>
              <a href={c.req.method === "GET" ? c.get("url").pathname : "/"}>Try again</a> ·{" "}
            </>
          )}
          <a href="/">Go to the overview</a>
        </p>
        <p class="quiet">
          Request <code>{c.get("requestId")}</code>
        </p>
      </main>
    </Page>,
    status,
  );
}
