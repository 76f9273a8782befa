import type { LimitUsage } from "../../admission/window.ts";
import { percent } from "../../usage/percent.ts";
import { integer, wholePercent } from "../format.ts";
import { Ahead } from "./time.tsx";

/** Renders a table of limits: what is used of each, and when it is available again. */
export const LimitTable = ({ limits, now }: { limits: readonly LimitUsage[]; now: number }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Limit</th>
        <th scope="col" class="number">
          Used
        </th>
        <th scope="col" class="number">
          Share
        </th>
        <th scope="col" class="number">
          Left
        </th>
        <th scope="col">Resets</th>
      </tr>
    </thead>
    <tbody>
      {limits.map(({ per, limit, used, resetsAt }) => (
        <tr>
          <th scope="row" class="name">
            {integer(limit)} per {per}
          </th>
          <td class="number" data-label="Used">
            {integer(used)}
          </td>
          <td class="number" data-label="Share">
            {wholePercent(percent(used, limit))}
          </td>
          <td class="number" data-label="Left">
            {integer(Math.max(0, limit - used))}
          </td>
          <td data-label="Resets">
            <Ahead timeMs={resetsAt} now={now} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
