import { listAccounts } from "./accounts/account.ts";
import { forgetOldEntries } from "./activity/forget-old-entries.ts";
import { hourMs, minuteMs } from "./clock.ts";
import { connect, type Db } from "./db/client.ts";
import { deleteExpiredAnswers } from "./idempotency/kept-answers.ts";
import { pushWaitingKeys } from "./keys/push-key.ts";
import { tellExpiring } from "./keys/tell-expiring.ts";
import { foldOldestMarks } from "./usage/fold-marks.ts";
import { forgetOldUsage } from "./usage/forget-old-usage.ts";
import type { Wake } from "./webhooks/commit.ts";
import { forgetOldDeliveries, forgetOldEvents } from "./webhooks/forget-old-events.ts";
import { sweepDeliveries } from "./webhooks/sweep.ts";
import { wakeDeliveries } from "./webhooks/wake.ts";

const keysAtOnce = 50;
const marksAtOnce = 500;
const deliveriesAtOnce = 1000;

/**
 * What the cron job does. One part that fails does not keep the others from running; the job then fails as a whole, so that it
 * shows. `deliver`: makes a delivery itself, where the queue cannot be reached.
 */
export async function everyMinute(env: Env, now: number, deliver: (deliveryId: string) => Promise<void>): Promise<void> {
  const db = connect(env.DB);
  const waking: Promise<unknown>[] = [];
  const wake: Wake = (due) => {
    if (due.length > 0) waking.push(wakeDeliveries(env.DELIVERIES, due));
  };
  const outcomes = await Promise.allSettled([
    pushWaitingKeys({ db, guards: env.KEY_GUARD }, keysAtOnce),
    foldOldestMarks(db, marksAtOnce),
    tellExpiring(db, wake, now, keysAtOnce),
    sweepDeliveries({ db, queue: env.DELIVERIES, deliver }, now, deliveriesAtOnce),
    now % hourMs < minuteMs && forgetOld(db, now),
  ]);
  await Promise.all(waking);
  const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (errors.length > 0) throw new AggregateError(errors, "parts of the cron job failed");
}

/** Once an hour: what is past its keeping. The accounts take turns in being the first, so that none holds up the same others for ever. */
async function forgetOld(db: Db, now: number): Promise<void> {
  const accounts = await listAccounts(db);
  const first = Math.floor(now / hourMs) % Math.max(1, accounts.length);
  await runAll([
    () => deleteExpiredAnswers(db, now),
    () => forgetOldDeliveries(db, now),
    ...[...accounts.slice(first), ...accounts.slice(0, first)].flatMap(({ id }) => [
      () => forgetOldEntries(db, id, now),
      () => forgetOldUsage(db, id, now),
      () => forgetOldEvents(db, id, now),
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
