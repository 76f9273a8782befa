import { type Account, listAccounts } from "../../accounts/account.ts";
import { listActivity } from "../../activity/read-activity.ts";
import type { Guards } from "../../admission/guards.ts";
import { readHighestUsage } from "../../admission/rate-limit-usage.ts";
import type { Db } from "../../db/client.ts";
import { listKeys } from "../../keys/read-keys.ts";
import { readUsage } from "../../usage/read-usage.ts";
import { refreshRollUps } from "../../usage/refresh-roll-ups.ts";
import { Figures } from "../components/figures.tsx";
import { KeyList } from "../components/key-list.tsx";
import { Page } from "../components/layout.tsx";
import { RecentActivity } from "../components/recent-activity.tsx";

const entriesShown = 10;
const keysShown = 25;

/** The overview of one account: of the one with the id `wanted`, else of the oldest. */
export async function overviewPage({ db, guards, now }: { db: Db; guards: Guards; now: number }, wanted: string | undefined) {
  const accounts = await listAccounts(db);
  const account = accounts.find(({ id }) => id === wanted) ?? accounts[0];
  if (!account) return <NoAccount />;
  const reading = await refreshRollUps({ db, guards, now, actor: { accountId: account.id, keyId: null } });
  const [usage, highest, { entries }, keys] = await Promise.all([
    readUsage(reading, { window: "30d" }),
    // A guard that does not answer costs the page one figure, not all of them.
    readHighestUsage(reading).catch(() => null),
    listActivity(reading, { filter: {}, limit: entriesShown }),
    listKeys(reading, { limit: keysShown + 1 }),
  ]);
  return (
    <Page title={account.name}>
      <p class="banner" role="note">
        Local mode: whoever sits at this machine sees this page. A deployed Worker keeps it closed.
      </p>
      <div class="heading">
        <h1>
          <bdi>{account.name}</bdi>
        </h1>
        {accounts.length > 1 && <AccountChoice accounts={accounts} current={account} />}
      </div>
      <Figures usage={usage} highest={highest} />
      <div class="columns">
        <RecentActivity entries={entries} now={now} />
        <KeyList keys={keys.slice(0, keysShown)} hasMore={keys.length > keysShown} now={now} />
      </div>
    </Page>
  );
}

const AccountChoice = ({ accounts, current }: { accounts: Account[]; current: Account }) => (
  <form class="choice" method="get" action="/">
    <label for="account">Account</label>
    <select id="account" name="account">
      {accounts.map(({ id, name }) => (
        <option value={id} selected={id === current.id}>
          {name}
        </option>
      ))}
    </select>
    <button type="submit">Show</button>
  </form>
);

const NoAccount = () => (
  <Page title="No account">
    <section class="panel notice">
      <h1>No account yet</h1>
      <p>
        Make one with <code>npm run account -- --name NAME --email EMAIL</code>.
      </p>
    </section>
  </Page>
);
