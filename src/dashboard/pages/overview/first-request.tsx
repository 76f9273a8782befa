import { visitorMay } from "../../access/permissions.tsx";
import { NameLink } from "../../components/name-link.tsx";
import { StatusCode } from "../../components/status.tsx";
import { Trace } from "../../components/trace.tsx";
import type { PageContext } from "../../context.ts";
import type { RequestDetails } from "../request/read.ts";

/** Renders the first request of an account with its trace, and one next step: to see why it failed, or to get events. */
export const FirstRequest = ({ c, details, hasWebhook }: { c: PageContext; details: RequestDetails; hasWebhook: boolean }) => {
  const { id, method, path, status } = details.entry;
  const [next, to] =
    status !== null && status >= 400
      ? ["See why it failed", `/activity/${id}`]
      : !hasWebhook && visitorMay(c, "webhooks")
        ? ["Add a webhook", "/webhooks/new"]
        : ["Read what your client must handle", "/docs/guides/errors"];
  return (
    <section id="first-request" class="note" aria-labelledby="first-request-title" data-refresh>
      <h2 id="first-request-title">Your first request</h2>
      <p>
        <NameLink href={`/activity/${id}`} name={`${method} ${path}`} /> <StatusCode status={status} />
      </p>
      <Trace details={details}>
        <p>
          Next: <a href={to}>{next}</a>
        </p>
      </Trace>
    </section>
  );
};
