import type { LimitUsage } from "../../budget/limits.ts";
import { percent } from "../../usage/percent.ts";
import { integer, wholePercent } from "../format.ts";
import { Columns, NumberCell } from "./columns.tsx";
import { NameLink } from "./name-link.tsx";
import { Ahead } from "./time.tsx";

/** A limit with what is used of it. `key`: the key that has the limit, in a table with limits of several keys. */
export type ShownLimit = LimitUsage & { key?: { id: string; name: string } };

/** Renders a table of limits: what is used of each, and when it is available again. */
export const LimitTable = ({ limits, now }: { limits: readonly ShownLimit[]; now: number }) => (
  <table class="cards one-line">
    <Columns
      of={[
        ...(limits.some(({ key }) => key) ? ["Key", { name: "Limit", width: 176 }] : ["Limit"]),
        { name: "Used", width: 80, isNumber: true },
        { name: "Share", width: 80, isNumber: true },
        { name: "Left", width: 80, isNumber: true },
        { name: "Resets", width: 212 },
      ]}
    />
    <tbody>
      {limits.map(({ key, per, limit, used, resetsAt }) => (
        <tr>
          <th scope="row" class="name" title={key?.name}>
            {key ? <NameLink href={`/keys/${key.id}`} name={key.name} /> : `${integer(limit)} per ${per}`}
          </th>
          {key && (
            <td data-label="Limit">
              {integer(limit)} per {per}
            </td>
          )}
          <NumberCell label="Used">{integer(used)}</NumberCell>
          <NumberCell label="Share">{wholePercent(percent(used, limit))}</NumberCell>
          <NumberCell label="Left">{integer(Math.max(0, limit - used))}</NumberCell>
          <td data-label="Resets">
            <Ahead timeMs={resetsAt} now={now} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
