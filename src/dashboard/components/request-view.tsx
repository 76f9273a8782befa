import type { Operation } from "../../api/openapi/document.ts";
import { requestOrigin } from "../../http/request-url.ts";
import { timeOfId } from "../../lib/ids.ts";
import { brand, supportLink } from "../../lib/settings.ts";
import { openMs } from "../../log/entry.ts";
import type { ReadEntry } from "../../log/read/read-activity.ts";
import type { PageContext } from "../context.ts";
import { explain } from "../explain-failure.ts";
import { counted, duration } from "../format.ts";
import type { RequestDetails } from "../pages/request/read.ts";
import { Fact } from "./fact.tsx";
import { Fixes } from "./fixes.tsx";
import { SupportLink } from "./layout.tsx";
import { NameLink } from "./name-link.tsx";
import { Code, CopyButton } from "./secret.tsx";
import { StatusCode } from "./status.tsx";
import { Age, Moment } from "./time.tsx";
import { FieldErrors, Trace } from "./trace.tsx";

/** Quotes text for a shell. A client chose the path, so the path can contain any character. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a curl command that repeats the request. The command lacks the original query string and body, because they are not stored. */
function curlOf({ method, path }: ReadEntry, origin: string): string {
  const how = method === "GET" ? "" : method === "HEAD" ? " -I" : ` -X ${method}`;
  const body = /^(?:POST|PUT|PATCH)$/.test(method) ? ` \\\n  -H "Content-Type: application/json" -d '{}'` : "";
  return `curl -g${how} ${quoted((path.startsWith("/api/v1") ? origin : brand.apiUrl || origin) + path)} -H "Authorization: Bearer $${brand.keyVariable}"${body}`;
}

/** The route in the log of a request to another API that has not named it. */
const notGiven = "-";

/** Returns the scope that an operation needs. */
const scopeOf = (operation: Operation | undefined): string | undefined =>
  Object.values((operation?.security as Record<string, string[]>[] | undefined)?.[0] ?? {})[0]?.[0];

/** Returns a query string with the id from the request's path. The API console uses this query string to fill in the id. */
function idQuery({ path, route }: ReadEntry): string {
  const at = route.split("/").indexOf("{id}");
  const id = at === -1 ? undefined : path.split("/")[at];
  return id ? `?${new URLSearchParams({ id })}` : "";
}

/** Returns what the request has used of the limits. */
function limitUsed({ counted: isCounted, admitted, cost }: ReadEntry): string {
  if (isCounted) return `used ${counted(cost ?? 1, "unit")} of each limit`;
  return admitted ? "not counted" : "used nothing, because the request was refused";
}

const isOpen = ({ id }: ReadEntry, now: number): boolean => now < timeOfId(id) + openMs;

/** Renders everything that is known about one request. */
export function RequestView({ c, details, now }: { c: PageContext; details: RequestDetails; now: number }) {
  const { entry, operation } = details;
  const explanation = explain(entry);
  const missingScope = entry.errorCode === "insufficient_scope" ? scopeOf(operation) : undefined;
  const isOwn = entry.route.startsWith("/api/v1/");
  return (
    <>
      {explanation && (
        <section class="note alert" aria-labelledby="why">
          <h2 id="why">{(entry.status ?? 0) < 500 ? "Why this was refused" : "Why this failed"}</h2>
          <p>
            <StatusCode status={entry.status} /> {entry.errorCode && <code>{entry.errorCode}</code>}
          </p>
          <p>
            {entry.problem && entry.errorCode !== "rate_limit_exceeded" ? entry.problem.detail : explanation.why} {explanation.what}
            {missingScope && !entry.problem && (
              <>
                {" "}
                The operation needs the scope <code>{missingScope}</code>.
              </>
            )}
          </p>
          {entry.problem && <FieldErrors errors={entry.problem.errors} />}
          {explanation.header && !explanation.what.includes(explanation.header) && (
            <p class="quiet">
              The header <code>{explanation.header}</code> of the response contains more information for the client.
            </p>
          )}
          <p>
            <a href={`/keys/${entry.keyId}`}>View the key</a> ·{" "}
            <a href={`/activity?key_id=${entry.keyId}&status=${entry.status ?? "none"}`}>Similar requests</a> {supportLink() && <>· </>}
            <SupportLink requestId={entry.id} />
          </p>
        </section>
      )}
      {entry.status === null && (
        <section class="note" aria-labelledby="open">
          <h2 id="open">The response is not known</h2>
          <p>
            {isOpen(entry, now)
              ? "Another API has served this request. It can report its response until ten minutes after the request."
              : "Another API has served this request, and has not reported its response. The success rate and the response times leave the request out."}
          </p>
        </section>
      )}
      <Trace details={details}>
        <Fixes c={c} details={details} missingScope={missingScope} />
      </Trace>
      <section class="panel" aria-labelledby="request">
        <h2 id="request">The request</h2>
        <dl class="facts">
          <Fact name="When">
            <Moment timeMs={timeOfId(entry.id)} />, <Age timeMs={timeOfId(entry.id)} now={now} />
          </Fact>
          <Fact name="Took">{duration(entry.durationMs)}</Fact>
          <Fact name="Operation">
            <code class="break">
              {entry.method} {entry.route === notGiven ? entry.path : entry.route}
            </code>
          </Fact>
          <Fact name="Key">
            <NameLink href={`/keys/${entry.keyId}`} name={entry.keyName ?? entry.keyId} />
          </Fact>
          <Fact name="Limit">{limitUsed(entry)}</Fact>
          <Fact name="From">
            {entry.ip ?? (isOwn ? "an address that is no longer stored" : "an address that was not given")}
            {entry.country && `, ${entry.country}`}
          </Fact>
          <Fact name="User agent" class="break">
            <bdi>{entry.userAgent ?? "none"}</bdi>
          </Fact>
          {entry.count > 1 && (
            <Fact name="Represents">{counted(entry.count, "request")} that were refused in the same way in the same second</Fact>
          )}
          <Fact name="Request id">
            <code class="break" id="request-id">
              {entry.id}
            </code>
            <CopyButton of="#request-id" />
          </Fact>
        </dl>
      </section>
      {(isOwn || brand.apiUrl !== "") && (
        <section class="panel" aria-labelledby="again">
          <h2 id="again">Repeat this request</h2>
          <p>
            {/^(?:POST|PUT|PATCH)$/.test(entry.method)
              ? `The body and the query of this request were not stored. Replace {} with your own body.`
              : "The query of this request was not stored. Add it to the address if there was one."}
          </p>
          <Code label="With curl" id="curl">
            {curlOf(entry, requestOrigin(c))}
          </Code>
          {operation && (
            <p>
              <a href={`/docs/api/${operation.operationId}${idQuery(entry)}#try-it`}>The same in the console</a>
            </p>
          )}
        </section>
      )}
    </>
  );
}
