import type { Child } from "hono/jsx";
import { Age } from "../../dashboard/components/time.tsx";
import { integer } from "../../dashboard/format.ts";
import type { DeploymentStatus } from "../../operations/deployment-status.ts";
import { hourMs } from "../../time/clock.ts";

const many = 100_000;
const counted = (count: number) => (count > many ? `more than ${integer(many)}` : integer(count));
const gigabytes = (bytes: number) => (bytes < 1e7 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);

/** A row of a status table. The value of `isBad` is shown as text, because color alone is not accessible. */
const Line = ({ name, isBad, children }: { name: string; isBad?: boolean; children: Child }) => (
  <tr>
    <th scope="row">{name}</th>
    <td>{children}</td>
    <td class="number">{isBad === undefined ? "" : isBad ? <strong>needs attention</strong> : <span class="quiet">OK</span>}</td>
  </tr>
);

const Lines = ({ children }: { children: Child }) => (
  <table>
    <thead class="unseen">
      <tr>
        <th scope="col">What</th>
        <th scope="col">Now</th>
        <th scope="col">State</th>
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
);

const lateMs = 10 * 60_000;

/** Shows the status of the deployment, such as its backlog and the sizes of its databases. */
const isLate = (at: number | null, now: number): boolean => at !== null && now - at > lateMs;

const isRecent = (at: number | null, now: number): boolean => at !== null && now - at < hourMs;

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
        <Line name="Live keys" isBad={status.waitingKeys > 0}>
          {integer(status.liveKeys)}
          {status.waitingKeys > 0 && `, ${integer(status.waitingKeys)} with a change that their guard has not confirmed`}
        </Line>
        {status.missingSecrets.length > 0 && (
          <Line name="Missing secrets" isBad>
            {status.missingSecrets.join(", ")}
          </Line>
        )}
        <Line
          name="Request log"
          isBad={isLate(log.oldestWaitingAt, now) || log.hinted > 0 || isRecent(log.lost.droppedAt, now) || log.unreachable.length > 0}
        >
          {integer(log.headEntries)} entries in log writers
          {log.oldestWaitingAt !== null && (
            <>
              , the oldest cut waits for its database since <Age timeMs={log.oldestWaitingAt} now={now} />
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
            <Line name="Deliveries" isBad={backlog.oldestDueAt !== null && now - backlog.oldestDueAt > lateMs}>
              {counted(backlog.pending)} pending, {counted(backlog.due)} due
              {backlog.oldestDueAt !== null && (
                <>
                  , the oldest since <Age timeMs={backlog.oldestDueAt} now={now} />
                </>
              )}
            </Line>
            <Line name="Webhooks">
              {integer(backlog.failingWebhooks)} failing, {integer(backlog.disabledWebhooks)} disabled
            </Line>
          </>
        )}
        {status.databases.map(({ binding, bytes, isFull }) => (
          <Line name={`Database ${binding}`} isBad={isFull || bytes > 8e9}>
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
            <Line name={description || name} isBad={error !== null}>
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
