import type { Child } from "hono/jsx";
import type { Condition } from "../../monitoring/conditions.ts";
import type { DeploymentStatus } from "../../monitoring/deployment-status.ts";
import { Empty } from "../components/notice.tsx";
import { Age } from "../components/time.tsx";
import { counted, integer } from "../format.ts";

const many = 100_000;
const bounded = (count: number) => (count > many ? `more than ${integer(many)}` : integer(count));
const gigabytes = (bytes: number) => (bytes < 1e7 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);

/** Lists the conditions that need a person: the same as in `operator status` and in the alerts. */
export const Conditions = ({ conditions }: { conditions: readonly Condition[] }) => (
  <section class="panel" aria-labelledby="conditions">
    <h2 id="conditions">What needs somebody</h2>
    {conditions.length === 0 ? (
      <Empty>Nothing needs attention.</Empty>
    ) : (
      <ul class="attention">
        {conditions.map(({ name, severity, summary, runbook }) => (
          <li class={severity === "page" ? "bad" : "warn"}>
            {summary} <code>{name}</code>, <code class="unbroken">docs/runbooks/{runbook}</code>
          </li>
        ))}
      </ul>
    )}
  </section>
);

const Line = ({ name, children }: { name: string; children: Child }) => (
  <tr>
    <th scope="row">{name}</th>
    <td>{children}</td>
  </tr>
);

const Lines = ({ children }: { children: Child }) => (
  <table>
    <thead class="unseen">
      <tr>
        <th scope="col">What</th>
        <th scope="col">Now</th>
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
);

/** Shows the status of the deployment, such as its backlog and the sizes of its databases. */
export const Deployment = ({ status, now }: { status: DeploymentStatus; now: number }) => {
  const { backlog, log } = status;
  return (
    <section class="panel" aria-labelledby="deployment">
      <h2 id="deployment">The deployment</h2>
      <Lines>
        <Line name="Accounts">
          {integer(status.accounts)}
          {status.suspended > 0 && `, ${integer(status.suspended)} suspended`}
        </Line>
        <Line name="Live keys">
          {integer(status.liveKeys)}
          {status.waitingKeys > 0 && `, ${integer(status.waitingKeys)} with a change that their guard has not confirmed`}
        </Line>
        {status.missingSecrets.length > 0 && <Line name="Missing secrets">{status.missingSecrets.join(", ")}</Line>}
        <Line name="Request log">
          {counted(log.memtableEntries, "entry", "entries")} in log writers
          {log.oldestWaitingAt !== null && (
            <>
              , the oldest flush began <Age timeMs={log.oldestWaitingAt} now={now} />
            </>
          )}
          {log.hinted > 0 && `, ${integer(log.hinted)} wait for their log writer`}
          {log.lost.dropped > 0 && `, ${integer(log.lost.dropped)} were dropped`}
          {log.lost.tooOld > 0 && `, ${integer(log.lost.tooOld)} were too old`}
          {log.unreadable > 0 && `, ${integer(log.unreadable)} rows cannot be read`}
          {log.unreachable.length > 0 && `, no response from ${log.unreachable.join(", ")}`}
        </Line>
        {backlog && (
          <>
            <Line name="Deliveries">
              {bounded(backlog.pending)} pending, {bounded(backlog.due)} due
              {backlog.oldestDueAt !== null && (
                <>
                  , the oldest was due <Age timeMs={backlog.oldestDueAt} now={now} />
                </>
              )}
            </Line>
            <Line name="Webhooks">
              {integer(backlog.failingWebhooks)} failing, {integer(backlog.disabledWebhooks)} disabled
            </Line>
          </>
        )}
        {status.databases.map(({ binding, bytes, isFull }) => (
          <Line name={`Database ${binding}`}>
            {gigabytes(bytes)} of 10 GB{isFull && ": full"}
          </Line>
        ))}
      </Lines>
    </section>
  );
};

/** Lists the scheduled jobs. If a job has failed, the list is expanded. */
export const Jobs = ({ jobs, now }: { jobs: DeploymentStatus["jobs"]; now: number }) => {
  const failed = jobs.filter(({ error }) => error !== null);
  return (
    <section class="panel" aria-labelledby="jobs">
      <h2 id="jobs">Scheduled jobs</h2>
      <details open={failed.length > 0}>
        <summary>
          {integer(jobs.length)} jobs, {failed.length === 0 ? "none failed" : `${integer(failed.length)} failed`}
        </summary>
        <Lines>
          {jobs.map(({ name, description, done, ranAt, hasMore, error }) => (
            <Line name={description || name}>
              {integer(done)} done <Age timeMs={ranAt} now={now} />
              {hasMore && ", continues in the next minute"}
              {error !== null && `, failed: ${error}`}
            </Line>
          ))}
        </Lines>
      </details>
    </section>
  );
};
