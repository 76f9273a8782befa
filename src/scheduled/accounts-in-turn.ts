import { type Account, accountsAfter } from "../accounts/account.ts";
import type { Outcome, Run } from "./job.ts";

/** As many accounts as one statement is about. */
const accountsAtOnce = 50;

/**
 * Works on the accounts in turn, fifty at a time, from where the last run ended, until `atMost` is done or the time is over: so each is
 * reached, however many there are. `work` answers what it did of `atMost`.
 */
export async function accountsInTurn(
  { outbox, cursor, atMost, endsAt }: Run,
  work: (accounts: readonly Account[], left: number) => Promise<number>,
): Promise<Outcome> {
  let [done, after] = [0, cursor];
  while (done < atMost && Date.now() < endsAt) {
    const accounts = await accountsAfter(outbox.db, after, accountsAtOnce);
    const last = accounts.at(-1);
    if (!last) return { done, next: null };
    done += await work(accounts, atMost - done);
    if (accounts.length < accountsAtOnce) return { done, next: null };
    after = last.id;
  }
  return { done, next: after };
}
