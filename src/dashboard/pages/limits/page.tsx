import { Hono } from "hono";
import { type AccountLimits, readAccountLimits } from "../../../admission/account-limits.ts";
import { type RateLimitUsage, readLiveUsages } from "../../../admission/rate-limit-usage.ts";
import { teamName } from "../../../lib/settings.ts";
import { needs } from "../../access/needs.ts";
import { Columns, NumberCell } from "../../components/columns.tsx";
import { SupportLink, showPage } from "../../components/layout.tsx";
import { LimitTable, type ShownLimit } from "../../components/limit-table.tsx";
import { NameLink } from "../../components/name-link.tsx";
import { Empty } from "../../components/notice.tsx";
import type { PageEnv } from "../../context.ts";
import { integer, share } from "../../format.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";

export const limitsPages = new Hono<PageEnv>();

limitsPages.get("/limits", needs("session"), async (c) => {
  const context = contextOf(c);
  // If the budget does not respond, only its figures are missing.
  const [found, usages] = await Promise.all([
    readAccountLimits(context).catch(() => null),
    snapshotContext(c)
      .then(readLiveUsages)
      .catch(() => null),
  ]);
  return showPage(
    c,
    { title: "Limits", section: "Requests", trail: [["Usage", "/usage"]] },
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
          <Empty>The keys of this account share no limits.</Empty>
        ) : (
          <LimitTable limits={found.limits} now={context.now} />
        )}
      </section>
      {found && found.limits.length > 0 && (
        <section class="panel" aria-labelledby="by-key" id="by-key-part" data-refresh>
          <h2 id="by-key">Shared limits by key</h2>
          {found.byKey.length === 0 ? <Empty>No key has used a unit yet.</Empty> : <ByKey {...found} />}
        </section>
      )}
      {found && found.limits.length > 0 && (
        <p class="quiet">
          A request usually uses one unit of each limit. A request that a limit refuses uses nothing. Figures are at most five seconds old.
        </p>
      )}
      <section class="panel" aria-labelledby="own" id="own-part" data-refresh>
        <h2 id="own">Each key</h2>
        {usages === null ? (
          <Empty>The limits of the keys cannot be read right now. Reload the page.</Empty>
        ) : usages.length === 0 ? (
          <Empty>
            No keys yet. <a href="/keys/new">Create the first one</a>
          </Empty>
        ) : (
          <LimitTable limits={usages.flatMap(limitsOfKey)} now={context.now} />
        )}
      </section>
      <p class="quiet">
        Only {teamName} can set limits that all keys share. <SupportLink>Ask {teamName} for more</SupportLink>{" "}
        <a href="/docs/guides/limits">How limits work</a>
      </p>
    </>,
  );
});

const limitsOfKey = (usage: RateLimitUsage): ShownLimit[] =>
  usage.limits.map((each) => ({ ...each, key: { id: usage.keyId ?? "", name: usage.keyName ?? "" } }));

const ByKey = ({ limits, byKey }: AccountLimits) => (
  <section class="scroll" tabindex={0} aria-label="By key, as a table">
    <table class="cards one-line">
      <Columns
        of={[
          "Key",
          ...limits.map(({ per }) => ({ name: `This ${per}`, width: 80, isNumber: true })),
          { name: `Of all keys, this ${limits[0]?.per}`, width: 212, isNumber: true },
        ]}
      />
      <tbody>
        {byKey.map(({ keyId, keyName, used }) => (
          <tr>
            <th scope="row" class="name" title={keyName ?? keyId}>
              <NameLink href={`/keys/${keyId}`} name={keyName ?? keyId} />
            </th>
            {limits.map(({ per }) => (
              <NumberCell label={`This ${per}`}>{integer(used[per] ?? 0)}</NumberCell>
            ))}
            {limits.slice(0, 1).map(({ per, used: all }) => (
              <NumberCell label={`Of all keys, this ${per}`}>{share(used[per] ?? 0, Math.max(all, 1))}</NumberCell>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);
