import type { RateLimitUsage } from "../../admission/rate-limit-usage.ts";
import { newKeyPrefix, prefixOf } from "../../credentials/key-format.ts";
import type { Key } from "../../keys/key.ts";
import { scopesInWords } from "../../keys/scopes.ts";
import { percent } from "../../usage/percent.ts";
import { integer } from "../format.ts";
import { Columns, NumberCell } from "./columns.tsx";
import { Meter } from "./figure.tsx";
import { NameLink } from "./name-link.tsx";
import { Sparkline } from "./sparkline.tsx";
import { KeyCondition } from "./status.tsx";
import { Age, Ahead } from "./time.tsx";

/**
 * Renders the text that a key without a known last use shows. Only admitted requests use a key. `isCalled`: whether requests with the key are known, all of
 * them refused.
 */
export const Unused = ({ keyRow, isCalled }: { keyRow: Pick<Key, "isUseKnown">; isCalled: boolean }) => (
  <>{!keyRow.isUseKnown ? "not known right now" : isCalled ? "only refused requests" : "never used"}</>
);

const shownLength = newKeyPrefix.length + 6;

/** Renders a short form of a key: the start of its public part and its last four characters. */
export const KeyText = ({ keyRow }: { keyRow: Pick<Key, "id" | "last4" | "shownPrefix"> }) => (
  <code class="secret">
    {prefixOf(keyRow).slice(0, shownLength)}…{keyRow.last4}
  </code>
);

const noDays = [0, 0, 0, 0, 0, 0, 0];

/** Renders a table of keys with their state and usage. */
export const KeyTable = ({
  keys,
  now,
  days,
  usages,
}: {
  keys: readonly Key[];
  now: number;
  days: ReadonlyMap<string, readonly number[]>;
  usages: ReadonlyMap<string, RateLimitUsage>;
}) => (
  <table class="cards one-line">
    <Columns
      of={[
        "Name",
        { name: "Key", width: 148 },
        { name: "Status", width: 200 },
        { name: "Scopes", width: 120, class: "w-scopes" },
        { name: "Last used", width: "15%" },
        { name: "Expires", width: 96 },
        { name: "This hour", width: 120, isNumber: true },
        { name: "Seven days", width: 112, class: "w-week" },
      ]}
    />
    <tbody>
      {keys.map((key) => {
        const used = usages.get(key.id)?.used ?? 0;
        return (
          <tr class="row">
            <th scope="row" class="name" title={key.name}>
              <NameLink whole href={`/keys/${key.id}`} name={key.name} />
            </th>
            <td>
              <KeyText keyRow={key} />
            </td>
            <td>
              <KeyCondition keyRow={key} usage={usages.get(key.id)} now={now} />
            </td>
            <td data-label="Scopes" title={scopesInWords(key.scopes)}>
              {scopesInWords(key.scopes)}
            </td>
            <td data-label={key.lastUsedAt === null ? undefined : "Last used"}>
              {key.lastUsedAt === null ? (
                <span class="quiet">
                  <Unused keyRow={key} isCalled={(days.get(key.id) ?? noDays).some((count) => count > 0)} />
                </span>
              ) : (
                <>
                  <Age timeMs={key.lastUsedAt} now={now} /> <code class="quiet break">{key.lastUsedPath}</code>
                </>
              )}
            </td>
            <td data-label="Expires">
              {key.expiresAt === null ? (
                <span class="quiet">never</span>
              ) : key.expiresAt > now ? (
                <Ahead timeMs={key.expiresAt} now={now} />
              ) : (
                <Age timeMs={key.expiresAt} now={now} />
              )}
            </td>
            <NumberCell label="This hour">
              {integer(used)} / {integer(key.hourlyLimit)}
              <Meter percentUsed={percent(used, key.hourlyLimit)} />
            </NumberCell>
            <td>
              <Sparkline counts={days.get(key.id) ?? noDays} />
            </td>
          </tr>
        );
      })}
    </tbody>
  </table>
);
