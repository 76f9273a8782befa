import { type Account, accountsAfter } from "../accounts/account.ts";
import type { Outcome, Run } from "./job.ts";

/** Some accounts whose log is in the same database: one at least. */
export type AccountsOfStore = readonly [Account, ...Account[]];

/** As many accounts as one statement is about. */
const accountsAtOnce = 50;

/**
 * Works on the accounts in turn, fifty at a time, from where the last run ended, until `atMost` is done or the time is over: so each is
 * reached, however many there are, and a piece that fails (a database that is away) holds up no other. `work` answers what it did of `atMost`.
 */
export async function accountsInTurn(
  { outbox, cursor, atMost, endsAt }: Run,
  work: (accounts: AccountsOfStore, left: number) => Promise<number>,
): Promise<Outcome> {
  const errors: unknown[] = [];
  let [done, after] = [0, cursor];
  while (done < atMost && Date.now() < endsAt) {
    const accounts = await accountsAfter(outbox.db, after, accountsAtOnce);
    for (const own of Map.groupBy(accounts, ({ activityStore }) => activityStore).values()) {
      done += await work(own as unknown as AccountsOfStore, atMost - done).catch((error: unknown) => {
        errors.push(error);
        return 1;
      });
    }
    const last = accounts.at(-1);
    if (!last || accounts.length < accountsAtOnce) return { done, next: null, errors };
    after = last.id;
  }
  return { done, next: after, errors };
}
