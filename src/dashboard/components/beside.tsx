import { orNull } from "../../lib/errors/failure.ts";
import type { PageContext } from "../context.ts";
import { readRequestDetails } from "../pages/request/read.ts";
import { ButtonLink } from "./fields.tsx";
import { RequestView } from "./request-view.tsx";

interface BesideProps {
  c: PageContext;
  id: string;
  /** The address of the list without the request. */
  closed: string;
  now: number;
}

/** Renders one request beside the list, or says that no entry has its id. */
export async function Beside({ c, id, closed, now }: BesideProps) {
  const details = await readRequestDetails(c, id).catch(orNull);
  return (
    <>
      <header>
        <h2 id="beside" tabindex={-1}>
          {details === null ? (
            "There is no such entry"
          ) : (
            <>
              {details.entry.method} <span class="break">{details.entry.path}</span>
            </>
          )}
        </h2>
        <p class="buttons">
          {details && <a href={`/activity/${id}`}>Open as a page</a>}
          <ButtonLink href={closed} data-close>
            Close
          </ButtonLink>
        </p>
      </header>
      {details === null ? (
        <p role="alert">
          No entry of the log has the id <code class="break">{id}</code>.
        </p>
      ) : (
        <RequestView c={c} details={details} now={now} />
      )}
    </>
  );
}
