import { maskKeys } from "../../../credentials/mask-keys.ts";
import type { AppContext } from "../../../http/context.ts";
import { retryAfter } from "../../../http/problem.ts";
import { urlOf } from "../../../http/request-url.ts";
import { type Failure, failures } from "../../../lib/errors/failure.ts";
import { brand } from "../../../lib/settings.ts";
import { NoticePage, PageScript, SupportLink, showPage } from "../../components/layout.tsx";
import { CopyButton } from "../../components/secret.tsx";
import type { PageContext } from "../../context.ts";

/** Responds with the error page for failures outside the API. The page shows the reason, links to other pages, and the request id. */
export function errorPage(c: AppContext, failure: Failure): Response | Promise<Response> {
  const { status, title } = failures[failure.code];
  const { pathname, search } = urlOf(c);
  const what = (
    <>
      <p role="alert">{failure.message}</p>
      <p>
        {status >= 500 && (
          <>
            <a href={c.req.method === "GET" ? maskKeys(pathname + search) : "/"}>Try again</a> ·{" "}
          </>
        )}
        <a href="/">Go to the overview</a>
      </p>
      <p class="quiet">
        Request{" "}
        <code class="break" id="request-id">
          {c.get("requestId")}
        </code>{" "}
        <SupportLink requestId={c.get("requestId")} />
      </p>
      <CopyButton of="#request-id" what="the id of this request" />
      {failure.code === "unavailable" && brand.statusUrl !== "" && (
        <p>
          <a href={brand.statusUrl}>Is there an incident? See the status page</a>
        </p>
      )}
    </>
  );
  for (const [name, value] of Object.entries({ ...failure.headers, ...retryAfter(status, undefined) })) c.header(name, value);
  // Show the navigation if the visitor is known.
  const known = c as unknown as PageContext;
  if (known.get("visitor")) return showPage(known, { title, status }, <section class="panel">{what}</section>);
  return c.html(
    <NoticePage title={title} after={<PageScript name="overview" c={known} />}>
      {what}
    </NoticePage>,
    status,
  );
}
