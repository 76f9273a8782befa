import { Hono } from "hono";
import { Failure, orNull } from "../../errors/failure.ts";
import { ActivityTable } from "../components/activity-table.tsx";
import { showPage } from "../components/layout.tsx";
import { NeighborLinks, RequestView } from "../components/request-view.tsx";
import { idOf, type PageContext, type PageEnv } from "../context.ts";
import { needs } from "../needs.ts";
import { logContext } from "../operation-contexts.ts";
import { readNeighbors, readRequestDetails, readSharedEntries } from "../read-request.ts";

/** The page of one request. The list of requests shows the same beside it. */
export const requestPages = new Hono<PageEnv>();

const isRequestId = (id: string) => /^req_[0-9a-f]{32}$/.test(id);

requestPages.get("/activity/:id", needs("session"), async (c) => {
  const id = idOf(c);
  const details = await readRequestDetails(c, id).catch(orNull);
  if (details === null) {
    if (!isRequestId(id)) throw new Failure("not_found", "There is no such entry.");
    return showMissing(c, id);
  }
  const { method, path } = details.entry;
  // If the neighbors cannot be read, only their links are missing.
  const neighbors = await readNeighbors(logContext(c), details.entry.id).catch(() => ({ newer: undefined, older: undefined }));
  return showPage(
    c,
    {
      title: `${method} ${path}`,
      section: "Activity",
      trail: [["Activity", "/activity"]],
      action: <NeighborLinks {...neighbors} addressOf={(each) => `/activity/${each}`} />,
    },
    <RequestView c={c} details={details} now={Date.now()} />,
  );
});

/** Shows that no entry has an id, and the entries that may stand for its request. */
async function showMissing(c: PageContext, id: string) {
  const shared = await readSharedEntries(logContext(c), id);
  return showPage(
    c,
    { title: "There is no such entry", section: "Activity", trail: [["Activity", "/activity"]], status: 404 },
    <section class="panel" aria-label="Requests">
      <p role="alert">
        No entry of the log has the id <code class="break">{id}</code>.
      </p>
      {shared.length > 0 && (
        <>
          <p>Requests that are refused in the same way in the same second share one entry. These entries are from the second of this id:</p>
          <ActivityTable entries={shared} now={Date.now()} />
        </>
      )}
    </section>,
  );
}
