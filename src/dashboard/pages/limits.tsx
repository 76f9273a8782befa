import { Hono } from "hono";
import { type AccountLimits, readAccountLimits } from "../../admission/account-limits.ts";
import { showPage } from "../components/layout.tsx";
import { LimitTable } from "../components/limit-table.tsx";
import { Empty } from "../components/notice.tsx";
import type { PageEnv } from "../context.ts";
import { integer, share } from "../format.ts";
import { needs } from "../needs.ts";
import { budgetContext } from "../operation-contexts.ts";

export const limitsPages = new Hono<PageEnv>();

limitsPages.get("/limits", needs("session"), async (c) => {
  const context = budgetContext(c);
  // If the budget does not respond, only its figures are missing.
  const found = await readAccountLimits(context).catch(() => null);
  return showPage(
    c,
    { title: "Limits", section: "Usage", trail: [["Usage", "/usage"]] },
    <>
      <section class="panel" aria-labelledby="shared" id="shared-part" data-refresh>
        <header>
          <h2 id="shared">All keys together</h2>
          {found?.plan && (
            <p class="quiet">
              Plan <bdi>{found.plan.name}</bdi>
            </p>
          )}
        </header>
        {found === null ? (
          <Empty>The budget of the account does not respond right now. Reload the page.</Empty>
        ) : found.limits.length === 0 ? (
          <Empty>
            The keys of this account share no limits. Each key has limits of its own: see <a href="/keys">API Keys</a>.
          </Empty>
        ) : (
          <LimitTable limits={found.limits} now={context.now} />
        )}
      </section>
      {found && found.limits.length > 0 && (
        <section class="panel" aria-labelledby="by-key" id="by-key-part" data-refresh>
          <h2 id="by-key">By key</h2>
          {found.byKey.length === 0 ? <Empty>No key has used a unit yet.</Empty> : <ByKey {...found} />}
        </section>
      )}
      {found && found.limits.length > 0 && (
        <p class="quiet">
          A request usually uses one unit of each limit. A request that a limit refuses uses nothing. Figures are at most five seconds old.
        </p>
      )}
      <p class="quiet">
        Only the operator of this service can set limits that all keys share. <a href="/docs/guides/limits">How limits work</a>
      </p>
    </>,
  );
});

const ByKey = ({ limits, byKey }: AccountLimits) => (
  <section class="scroll" tabindex={0} aria-label="By key, as a table">
    <table class="cards">
      <thead>
        <tr>
          <th scope="col">Key</th>
          {limits.map(({ per }) => (
            <th scope="col" class="number">
              This {per}
            </th>
          ))}
          <th scope="col" class="number">
            Of all keys, this {limits[0]?.per}
          </th>
        </tr>
      </thead>
      <tbody>
        {byKey.map(({ keyId, keyName, used }) => (
          <tr>
            <th scope="row" class="name">
              <a href={`/keys/${keyId}`}>
                <bdi>{keyName ?? keyId}</bdi>
              </a>
            </th>
            {limits.map(({ per }) => (
              <td class="number" data-label={`This ${per}`}>
                {integer(used[per] ?? 0)}
              </td>
            ))}
            {limits.slice(0, 1).map(({ per, used: all }) => (
              <td class="number" data-label={`Of all keys, this ${per}`}>
                {share(used[per] ?? 0, Math.max(all, 1))}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);
