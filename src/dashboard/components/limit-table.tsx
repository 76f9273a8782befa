import type { LimitUsage } from "../../budget/limits.ts";
import { percent } from "../../usage/percent.ts";
import { integer, wholePercent } from "../format.ts";
import { Ahead } from "./time.tsx";

/** A limit with what is used of it. `key`: the key that has the limit, in a table with limits of several keys. */
export type ShownLimit = LimitUsage & { key?: { id: string; name: string } };

/** Renders a table of limits: what is used of each, and when it is available again. */
export const LimitTable = ({ limits, now }: { limits: readonly ShownLimit[]; now: number }) => (
  <table class="cards one-line">
    <colgroup>
      <col />
      {limits.some(({ key }) => key) && <col class="w-limit" />}
      <col class="w-number" />
      <col class="w-number" />
      <col class="w-number" />
      <col class="w-resets" />
    </colgroup>
    <thead>
      <tr>
        {limits.some(({ key }) => key) && <th scope="col">Key</th>}
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
      {limits.map(({ key, per, limit, used, resetsAt }) => (
        <tr>
          <th scope="row" class="name" title={key?.name}>
            {key ? (
              <a href={`/keys/${key.id}`}>
                <bdi>{key.name}</bdi>
              </a>
            ) : (
              `${integer(limit)} per ${per}`
            )}
          </th>
          {key && (
            <td data-label="Limit">
              {integer(limit)} per {per}
            </td>
          )}
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
