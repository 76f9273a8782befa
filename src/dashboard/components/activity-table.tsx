import type { ReadEntry } from "../../activity/read-activity.ts";
import { timeOfId } from "../../ids/ids.ts";
import { duration, integer } from "../format.ts";
import { StatusCode } from "./status.tsx";
import { Age } from "./time.tsx";

/** Renders a table of logged requests. `brief` omits the columns for the key and the duration. */
export const ActivityTable = ({ entries, now, brief = false }: { entries: readonly ReadEntry[]; now: number; brief?: boolean }) => (
  <table class="cards activity">
    <thead>
      <tr>
        <th scope="col">Method</th>
        <th scope="col">Path</th>
        <th scope="col">Status</th>
        {!brief && <th scope="col">Key</th>}
        {!brief && (
          <th scope="col" class="number">
            Duration
          </th>
        )}
        <th scope="col">When</th>
      </tr>
    </thead>
    <tbody>
      {entries.map((entry) => (
        <tr class="row" data-id={entry.id}>
          <td>
            <code>{entry.method}</code>
          </td>
          <th scope="row" class="path">
            <a class="whole" href={`/activity/${entry.id}`} title={entry.path}>
              <code>{entry.path}</code>
            </a>
          </th>
          <td>
            <StatusCode status={entry.status} />
            {entry.count > 1 && <span class="quiet"> × {integer(entry.count)}</span>}
          </td>
          {!brief && (
            <td class="name">
              <bdi>{entry.keyName ?? entry.keyId}</bdi>
            </td>
          )}
          {!brief && (
            <td class="number" data-label="Took">
              {duration(entry.durationMs)}
            </td>
          )}
          <td>
            <Age timeMs={timeOfId(entry.id)} now={now} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
