import { listAccounts } from "./accounts/account.ts";
import { deleteOldEntries } from "./activity/retention.ts";
import { deleteOldAudit } from "./audit/audit.ts";
import { hourMs, minuteMs } from "./clock.ts";
import { connect, type Db } from "./db/client.ts";
import { errorsOf, throwTogether } from "./errors.ts";
import type { Outbox } from "./events/commit.ts";
import { deleteOldEvents } from "./events/retention.ts";
import { deleteOldResponses } from "./idempotency/store.ts";
import { deleteOldSessions } from "./identity/sessions.ts";
import { notifyExpiring } from "./keys/notify-expiring.ts";
import { pushWaitingKeys } from "./keys/push-key.ts";
import { refreshOldestRollUps } from "./usage/refresh-roll-ups.ts";
import { deleteOldUsage } from "./usage/retention.ts";
import { finishDeletions } from "./users/delete-user.ts";
import { enqueueVia } from "./webhooks/enqueue.ts";
import { deleteOldDeliveries } from "./webhooks/retention.ts";
import { sweepDeliveries } from "./webhooks/sweep.ts";

interface Run {
  env: Env;
  now: number;
  outbox: Outbox;
  /** Makes a delivery at once, where the queue cannot be reached. */
  deliver: (deliveryId: string) => Promise<void>;
}

interface Job {
  name: string;
  everyMs: number;
  /** How much it does at most in one run: of keys, hours, users, deliveries. What is left it finds by an index in the next runs. */
  atMost: number;
  run: (run: Run, atMost: number) => PromiseLike<unknown>;
}

/** The jobs of the clock. Cron runs this table every minute. */
const jobs: readonly Job[] = [
  {
    name: "push changes of keys that their guard has not confirmed",
    everyMs: minuteMs,
    atMost: 50,
    run: ({ env, outbox }, atMost) => pushWaitingKeys({ db: outbox.db, guards: env.KEY_GUARD }, atMost),
  },
  {
    name: "refresh roll-ups of hours that are stale",
    everyMs: minuteMs,
    atMost: 500,
    run: ({ outbox }, atMost) => refreshOldestRollUps(outbox.db, atMost),
  },
  {
    name: "make the events of keys that are about to expire",
    everyMs: minuteMs,
    atMost: 50,
    run: ({ outbox, now }, atMost) => notifyExpiring(outbox, now, atMost),
  },
  {
    name: "finish deletions of users that were broken off",
    everyMs: minuteMs,
    atMost: 10,
    run: ({ outbox, now }, atMost) => finishDeletions(outbox, now, atMost),
  },
  {
    name: "enqueue deliveries that are due and unclaimed",
    everyMs: minuteMs,
    atMost: 1000,
    run: ({ env, now, outbox, deliver }, atMost) => sweepDeliveries({ db: outbox.db, queue: env.DELIVERIES, deliver }, now, atMost),
  },
  {
    name: "delete what is past its keeping",
    everyMs: hourMs,
    // Rows of each table, of each account.
    atMost: 500_000,
    run: ({ now, outbox }, atMost) => deleteOld(outbox.db, now, atMost),
  },
];

/** Runs the jobs whose time it is. One that fails does not keep the others from running; the run then fails as a whole, so that it shows. */
export async function runJobs(env: Env, now: number, deliver: Run["deliver"]): Promise<void> {
  const enqueued: Promise<unknown>[] = [];
  const outbox: Outbox = { db: connect(env.DB), enqueue: enqueueVia(env.DELIVERIES, (work) => void enqueued.push(work)) };
  const due = jobs.filter(({ everyMs }) => now % everyMs < minuteMs);
  const outcomes = await Promise.allSettled(due.map(async ({ run, atMost }) => run({ env, now, outbox, deliver }, atMost)));
  await Promise.all(enqueued);
  const failed = due.filter((_, index) => outcomes[index]?.status === "rejected").map(({ name }) => name);
  throwTogether(errorsOf(outcomes), `jobs of the clock failed: ${failed.join("; ")}`);
}

/** The accounts take turns in being the first, so that none holds up the same others for ever. */
async function deleteOld(db: Db, now: number, atMost: number): Promise<void> {
  const accounts = await listAccounts(db);
  const first = Math.floor(now / hourMs) % Math.max(1, accounts.length);
  await runAll([
    () => deleteOldResponses(db, now),
    () => deleteOldSessions(db, now),
    () => deleteOldDeliveries(db, now, atMost),
    ...[...accounts.slice(first), ...accounts.slice(0, first)].flatMap(({ id }) => [
      () => deleteOldEntries(db, id, now, atMost),
      () => deleteOldUsage(db, id, now),
      () => deleteOldEvents(db, id, now, atMost),
      () => deleteOldAudit(db, id, now, atMost),
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
  throwTogether(errors, "some of what is past its keeping could not be deleted");
}
