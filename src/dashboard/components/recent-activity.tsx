import { STATUS_CODES } from "node:http";
import type { ReadEntry } from "../../activity/read-activity.ts";
import { iso } from "../../clock.ts";
import { timeOfId } from "../../ids.ts";
import { age } from "../format.ts";

const kindOf = (status: number) => (status < 400 ? "ok" : status < 500 ? "refused" : "failed");
const marks = { ok: "✓", refused: "!", failed: "✕" };

const Status = ({ status }: { status: number }) => {
  const kind = kindOf(status);
  return (
    <span class={`status ${kind}`}>
      <span aria-hidden="true">{marks[kind]}</span> {status} {STATUS_CODES[status]}
    </span>
  );
};

export const Age = ({ timeMs, now }: { timeMs: number; now: number }) => (
  <time datetime={iso(timeMs)} title={iso(timeMs)}>
    {age(timeMs, now)}
  </time>
);

/** The latest requests of the account. */
export const RecentActivity = ({ entries, now }: { entries: ReadEntry[]; now: number }) => (
  <section class="panel" aria-labelledby="activity">
    <h2 id="activity">Recent Activity</h2>
    {entries.length === 0 ? (
      <p class="quiet">No requests yet. The first one shows here within two seconds of its answer.</p>
    ) : (
      <table>
        <thead>
          <tr>
            <th scope="col">Method</th>
            <th scope="col">Path</th>
            <th scope="col">Status</th>
            <th scope="col">When</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr>
              <td>
                <code>{entry.method}</code>
              </td>
              <td class="path">
                <code>{entry.path}</code>
              </td>
              <td>
                <Status status={entry.status} />
                {entry.count > 1 && <span class="quiet"> × {entry.count}</span>}
              </td>
              <td class="when">
                <Age timeMs={timeOfId(entry.id)} now={now} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    )}
  </section>
);
