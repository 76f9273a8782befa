import { type Key, statusOf } from "../../keys/key.ts";
import { prefixOf } from "../../keys/key-format.ts";
import { integer } from "../format.ts";
import { Age } from "./recent-activity.tsx";

const marks = { active: "●", disabled: "◌", expired: "◌", revoked: "✕" };

/** The keys of the account, the newest first. */
export const KeyList = ({ keys, hasMore, now }: { keys: Key[]; hasMore: boolean; now: number }) => (
  <section class="panel" aria-labelledby="keys">
    <h2 id="keys">API Keys</h2>
    {keys.length === 0 ? (
      <p class="quiet">No keys yet.</p>
    ) : (
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Key</th>
            <th scope="col">Status</th>
            <th scope="col" class="number">
              Per hour
            </th>
            <th scope="col">Last used</th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => {
            const status = statusOf(key, now);
            return (
              <tr>
                <td class="name">
                  <bdi>{key.name}</bdi>
                </td>
                <td class="secret">
                  <code>
                    {prefixOf(key.id).slice(0, 10)}…{key.last4}
                  </code>
                </td>
                <td>
                  <span class={`state ${status}`}>
                    <span aria-hidden="true">{marks[status]}</span> {status}
                  </span>
                </td>
                <td class="number" data-unit="per hour">
                  {integer(key.hourlyLimit)}
                </td>
                <td class="when" data-label="Last used">
                  {key.lastUsedAt === null ? "never" : <Age timeMs={key.lastUsedAt} now={now} />}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    )}
    {hasMore && <p class="quiet">The newest {keys.length} are shown.</p>}
  </section>
);
