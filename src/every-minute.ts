import { listAccounts } from "./accounts/account.ts";
import { forgetOldEntries } from "./activity/forget-old-entries.ts";
import { hourMs, minuteMs } from "./clock.ts";
import { connect, type Db } from "./db/client.ts";
import { deleteExpiredAnswers } from "./idempotency/kept-answers.ts";
import { pushWaitingKeys } from "./keys/push-key.ts";
import { foldOldestMarks } from "./usage/fold-marks.ts";
import { forgetOldUsage } from "./usage/forget-old-usage.ts";

const keysAtOnce = 50;
const marksAtOnce = 500;

/** What the cron job does. One part that fails does not keep the others from running; the job then fails as a whole, so that it shows. */
export async function everyMinute(env: Env, now: number): Promise<void> {
  const db = connect(env.DB);
  const outcomes = await Promise.allSettled([
    pushWaitingKeys({ db, guards: env.KEY_GUARD }, keysAtOnce),
    foldOldestMarks(db, marksAtOnce),
    now % hourMs < minuteMs && forgetOld(db, now),
  ]);
  const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (errors.length > 0) throw new AggregateError(errors, "parts of the cron job failed");
}

/** Once an hour: what is past its keeping. The accounts take turns in being the first, so that none holds up the same others for ever. */
async function forgetOld(db: Db, now: number): Promise<void> {
  const accounts = await listAccounts(db);
  const first = Math.floor(now / hourMs) % Math.max(1, accounts.length);
  await runAll([
    () => deleteExpiredAnswers(db, now),
    ...[...accounts.slice(first), ...accounts.slice(0, first)].flatMap(({ id }) => [
      () => forgetOldEntries(db, id, now),
      () => forgetOldUsage(db, id, now),
    ]),
  ]);
}

/** One after the other, whatever becomes of the ones before. */
async function runAll(parts: (() => PromiseLike<unknown>)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const part of parts) {
    try {
      await part();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, "some of what is past its keeping could not be deleted", { cause: errors[0] });
}
