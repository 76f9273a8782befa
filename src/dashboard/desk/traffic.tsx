import { inMib } from "../../accounts/storage.ts";
import type { AccountTraffic } from "../../monitoring/traffic.ts";
import { Columns } from "../components/columns.tsx";
import { counted, integer, share, wholePercent } from "../format.ts";

const shownAtMost = 20;
const nearPercent = 80;

interface Panel {
  id: string;
  heading: string;
  /** The heading of the column that shows `figure`. */
  column: string;
  none: string;
  wanted: (account: AccountTraffic) => boolean;
  by: (account: AccountTraffic) => number;
  figure: (account: AccountTraffic) => string | null;
}

const panels: readonly Panel[] = [
  {
    id: "requests",
    heading: "Most requests",
    column: "Requests",
    none: "No requests yet.",
    wanted: ({ requests }) => requests > 0,
    by: ({ requests }) => requests,
    figure: ({ requests }) => integer(requests),
  },
  {
    id: "errors",
    heading: "Most errors",
    column: "5xx",
    none: "No response was a server error.",
    wanted: ({ errors }) => errors > 0,
    by: ({ errors }) => errors,
    figure: ({ errors, requests }) => `${integer(errors)} (${share(errors, requests)})`,
  },
  {
    id: "limited",
    heading: "Most requests over the limit",
    column: "429",
    none: "No request was refused because of a limit.",
    wanted: ({ limited }) => limited > 0,
    by: ({ limited }) => limited,
    figure: ({ limited, requests }) => `${integer(limited)} (${share(limited, requests)})`,
  },
  {
    id: "near",
    heading: "Near their limit",
    column: "Used",
    none: `No account and no key used in this hour has used ${nearPercent}% of a limit per hour, day or month.`,
    wanted: ({ nearest: [first] }) => (first?.percent ?? 0) >= nearPercent,
    by: ({ nearest: [first] }) => first?.percent ?? 0,
    figure: ({ nearest: [nearest = null] }) =>
      nearest && `${wholePercent(nearest.percent)} of this ${nearest.per} by ${nearest.keyId ?? "all keys"}`,
  },
  {
    id: "storage",
    heading: "Most storage",
    column: "Of its quota",
    none: "No account stores anything.",
    wanted: ({ storedBytes }) => storedBytes > 0,
    by: ({ storedBytes, quotaBytes }) => storedBytes / Math.max(quotaBytes, 1),
    figure: ({ storedBytes, quotaBytes }) => `${share(storedBytes, quotaBytes)} (${inMib(storedBytes)} of ${inMib(quotaBytes)})`,
  },
  {
    id: "quiet",
    heading: "Gone quiet",
    column: "In the week before",
    none: "Every account that called in the week before has also called since yesterday.",
    wanted: ({ requests, before }) => requests === 0 && before > 0,
    by: ({ before }) => before,
    figure: ({ before }) => counted(before, "request"),
  },
];

/** Shows a panel for each ranking of accounts. Requests are counted from the start of yesterday (UTC). */
export const TrafficPanels = ({ accounts }: { accounts: readonly AccountTraffic[] }) => (
  <>
    <p class="quiet">Requests of each account since the start of yesterday (UTC). The figures can be up to five minutes old.</p>
    {panels.map(({ id, heading, column, none, wanted, by, figure }) => {
      const shown = accounts
        .filter(wanted)
        .toSorted((one, other) => by(other) - by(one))
        .slice(0, shownAtMost);
      return (
        <section class="panel" aria-labelledby={id}>
          <h2 id={id}>{heading}</h2>
          {shown.length === 0 ? (
            <p class="quiet">{none}</p>
          ) : (
            <table>
              <Columns of={["Account", { name: column, isNumber: true }]} />
              <tbody>
                {shown.map((account) => (
                  <tr>
                    <th scope="row" class="name">
                      <bdi>{account.name}</bdi> <code class="quiet break">{account.id}</code>
                      {account.isSuspended && <span class="tag">Suspended</span>}
                    </th>
                    <td class="number wraps">{figure(account)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </section>
      );
    })}
  </>
);
