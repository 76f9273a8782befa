import { STATUS_CODES } from "node:http";
import { timeOfId } from "../../lib/ids.ts";
import type { ReadEntry } from "../../log/read/read-activity.ts";
import { duration } from "../format.ts";
import { Columns, NumberCell } from "./columns.tsx";
import { StatusCode } from "./status.tsx";
import { Age, LogTime } from "./time.tsx";

const barWidth = 48;
/** The duration with the longest bar, in milliseconds. */
const longestMs = 10_000;

/** Renders a duration as a bar. The scale is logarithmic and the same in every list, so that bars of different lists can be compared. */
const DurationBar = ({ durationMs }: { durationMs: number }) => (
  <svg class="latency" width={barWidth} height={6} aria-hidden="true">
    <rect
      width={Math.max(2, Math.min(barWidth, (barWidth * Math.log(1 + durationMs)) / Math.log(longestMs))).toFixed(1)}
      height={6}
      rx={3}
    />
  </svg>
);

/**
 * Renders a table of logged requests. `brief` omits the duration and the exact time. `isOfKey` omits the key.
 */
export const ActivityTable = ({
  entries,
  now,
  brief = false,
  isOfKey = false,
}: {
  entries: readonly ReadEntry[];
  now: number;
  brief?: boolean;
  isOfKey?: boolean;
}) => {
  return (
    <table class={brief ? "cards activity brief" : "cards activity"}>
      <Columns
        of={[
          { name: "Method", width: brief ? 80 : 88 },
          "Path",
          { name: "Status", width: brief ? 88 : 212 },
          !isOfKey && { name: "Key", width: brief ? 136 : "15%" },
          !brief && { name: "Duration", width: 84, class: "took", isNumber: true },
          { name: brief ? "When" : "When (UTC)", width: brief ? 116 : 168, class: "when", isZoned: !brief },
        ]}
      />
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
            <td title={entry.status === null ? undefined : `${entry.status} ${STATUS_CODES[entry.status] ?? ""}`.trim()}>
              <StatusCode status={entry.status} count={entry.count} />
            </td>
            {!isOfKey && (
              <td class="name" title={entry.keyName ?? entry.keyId}>
                <bdi>{entry.keyName ?? entry.keyId}</bdi>
              </td>
            )}
            {!brief && (
              <NumberCell label="Took">
                {duration(entry.durationMs)} {entry.durationMs !== null && <DurationBar durationMs={entry.durationMs} />}
              </NumberCell>
            )}
            <td>
              {!brief && (
                <>
                  <LogTime timeMs={timeOfId(entry.id)} />{" "}
                </>
              )}
              <Age timeMs={timeOfId(entry.id)} now={now} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
};
