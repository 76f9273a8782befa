import { budgetsOf } from "../budget/budgets.ts";
import { measureDatabases } from "../db/database-sizes.ts";
import { guardsOf } from "../guard/guards.ts";
import { deleteOldInvitations } from "../identity/invitations.ts";
import { deleteOldLinks } from "../identity/portal.ts";
import { deleteOldSessions } from "../identity/sessions.ts";
import { notifyExpiring } from "../keys/notify-expiring.ts";
import { pushWaitingAccounts } from "../keys/push-account.ts";
import { pushWaitingKeys } from "../keys/push-key.ts";
import { hourMs, minuteMs, secondMs } from "../lib/time/clock.ts";
import { finishErasures } from "../lifecycle/erase-account.ts";
import { applyPlans } from "../lifecycle/plans.ts";
import { activityDatabase, activityDatabases } from "../log/databases.ts";
import { activityDays } from "../log/retention.ts";
import { logOf, wakeWriters, writerAt } from "../log/writers.ts";
import { sendAlerts } from "../monitoring/send-alerts.ts";
import { deleteOldAudit } from "../outbox/audit.ts";
import { deleteOldResponses } from "../outbox/idempotency/store.ts";
import { deleteOldEvents } from "../outbox/retention.ts";
import { deleteOldUsage } from "../usage/retention.ts";
import { deleteOldDeliveries, deleteOldRedeliveries } from "../webhooks/deliveries/retention.ts";
import { finishSettlements } from "../webhooks/deliveries/settle.ts";
import { sweepDeliveries } from "../webhooks/deliveries/sweep.ts";
import { continueRedeliveries } from "../webhooks/redeliveries/redelivery-pieces.ts";
import { type AccountsOfStore, accountsInTurn, type Piece } from "./accounts-in-turn.ts";
import { type Job, type Run, withoutCursor } from "./job.ts";

/** The scheduled jobs of the areas. A cron trigger runs them every minute, with those of the resources. */
export const jobs: readonly Job[] = [
  {
    name: "push_keys",
    description: "push key changes that the guards have not confirmed",
    everyMs: minuteMs,
    atMost: 100,
    run: async ({ env, outbox, cursor, atMost }) => {
      const push = { db: outbox.db, guards: guardsOf(env) };
      const { done, last } = await pushWaitingKeys(push, cursor, atMost);
      if (last !== null || cursor === "") return { done, next: last };
      // The round ended before the run reached its limit, so the next round starts in the same run.
      const begun = await pushWaitingKeys(push, "", Math.max(1, atMost - done));
      return { done: done + begun.done, next: begun.last };
    },
  },
  {
    name: "push_account_limits",
    description: "push limits of accounts that the budgets or guards have not confirmed",
    everyMs: minuteMs,
    // One unit of this job is an account, with at most 50 guards.
    atMost: 2,
    run: async ({ env, outbox, cursor, atMost }) => {
      const push = { db: outbox.db, guards: guardsOf(env), budgets: budgetsOf(env) };
      const { done, last } = await pushWaitingAccounts(push, cursor, atMost);
      return { done, next: last };
    },
  },
  {
    name: "apply_plans",
    description: "give accounts the latest terms of their plans",
    everyMs: minuteMs,
    // One unit of this job is an account, with at most 50 guards. It also lowers the limits of five keys, with about 15 D1 statements each.
    atMost: 2,
    run: ({ env, outbox, now, cursor, endsAt, atMost }) =>
      applyPlans({ db: outbox.db, now, outbox, guards: guardsOf(env), budgets: budgetsOf(env), env }, cursor, {
        endsAt,
        maxKeys: 5,
        maxAccounts: atMost,
      }),
  },
  {
    name: "wake_log_writers",
    description: "wake the log writers in case an alarm was missed",
    everyMs: minuteMs,
    atMost: 1000,
    run: withoutCursor(({ env }) => wakeWriters(env)),
  },
  {
    name: "measure_databases",
    description: "measure the databases",
    everyMs: minuteMs,
    atMost: 100,
    run: withoutCursor(({ env, outbox, now }) => measureDatabases(outbox.db, [["DB", env.DB], ...activityDatabases(env)], now)),
  },
  {
    name: "send_alerts",
    description: "post alerts about the deployment to ALERT_URL",
    everyMs: minuteMs,
    atMost: 100,
    run: withoutCursor(({ env, outbox, now }) => sendAlerts(outbox.db, env, now)),
  },
  {
    name: "notify_expiring_keys",
    description: "create the events of keys that expire soon",
    everyMs: minuteMs,
    atMost: 30,
    run: withoutCursor(({ env, outbox, now, atMost }) =>
      notifyExpiring({ ...outbox, logOf: (logWriter) => logOf(env, logWriter) }, now, atMost),
    ),
  },
  {
    name: "finish_erasures",
    description: "finish interrupted erasures of accounts, and check finished erasures for late rows",
    everyMs: minuteMs,
    atMost: 3,
    run: withoutCursor(({ env, outbox, now, atMost }) =>
      finishErasures({ db: outbox.db, guards: guardsOf(env), budgets: budgetsOf(env), env }, now, atMost),
    ),
  },
  {
    name: "sweep_deliveries",
    description: "enqueue deliveries that are due and unclaimed",
    everyMs: minuteMs,
    atMost: 1000,
    run: async ({ env, now, outbox, deliver, cursor, atMost }) => {
      const { done, last } = await sweepDeliveries({ db: outbox.db, queue: env.DELIVERIES, deliver }, now, cursor, atMost);
      return { done, next: last };
    },
  },
  {
    name: "settle_webhooks",
    description: "hold or end pending deliveries of disabled or deleted webhooks",
    everyMs: minuteMs,
    // One unit of this job is a group of 500 deliveries.
    atMost: 40,
    run: withoutCursor(({ outbox, now, atMost }) => finishSettlements(outbox.db, now, atMost)),
  },
  {
    name: "make_redeliveries",
    description: "create the next deliveries of redeliveries",
    everyMs: minuteMs,
    // One unit of this job is a group of 500 deliveries and takes seven D1 statements.
    atMost: 15,
    run: withoutCursor(({ outbox: { db, enqueue = () => {} }, now, atMost }) => continueRedeliveries({ db, enqueue }, now, atMost)),
  },
  {
    name: "delete_old_log_entries",
    description: "delete log entries that are past their retention",
    everyMs: hourMs,
    // One unit of this job is a batch of 500 segments.
    atMost: 40,
    run: (run) => accountsInTurn(run, (accounts, left) => deleteLogOf(run, accounts, left)),
  },
  {
    name: "delete_old_usage",
    description: "delete hourly and daily usage that is past its retention",
    everyMs: hourMs,
    // One unit of this job is a batch of at most 100 hours and 100 days of usage.
    atMost: 20,
    run: (run) => accountsInTurn(run, (accounts, left) => deleteUsageOf(run, accounts, left)),
  },
  {
    name: "delete_old_history",
    description: "delete events, redeliveries, audit entries and invitations that are past their retention",
    everyMs: hourMs,
    // One unit of this job is one deleted row. Each processed group of accounts counts as another 1,000 rows.
    atMost: 20_000,
    run: (run) => accountsInTurn(run, (accounts, left) => deleteHistoryOf(run, accounts, left)),
  },
  {
    name: "delete_old_deliveries",
    description: "delete deliveries that are past their retention",
    everyMs: hourMs,
    atMost: 20_000,
    run: withoutCursor(({ outbox, now, atMost }) => deleteOldDeliveries(outbox.db, now, atMost)),
  },
  {
    name: "delete_old_responses",
    description: "delete idempotency responses that are older than 24 hours",
    everyMs: hourMs,
    atMost: 20_000,
    run: withoutCursor(({ outbox, now, atMost }) => deleteOldResponses(outbox.db, now, atMost)),
  },
  {
    name: "delete_ended_sessions",
    description: "delete sessions that have ended",
    everyMs: hourMs,
    atMost: 20_000,
    run: withoutCursor(({ outbox, now, atMost }) => deleteOldSessions(outbox.db, now, atMost)),
  },
];

/**
 * The maximum number of batches for one group of accounts in a round. Without this maximum, a group with many entries would delay the next groups.
 */
const maxBatchesOfAccounts = 40;
/**
 * If a batch leaves more entries to delete, the job pauses for nine times the duration of the batch. Because of these pauses, 90 % of D1's
 * time is free for other work.
 */
const rest = 9;
const maxPieceMs = 20 * secondMs;
const historyOfAccounts = 20_000;
const groupWorth = 1000;

async function deleteLogOf({ env, now, endsAt }: Run, accounts: AccountsOfStore, left: number): Promise<Piece> {
  const writer = writerAt(env, accounts[0].logWriter);
  const days = activityDays(env);
  const retentions = accounts.map(({ id, retentionDays }) => ({ accountId: id, days: retentionDays ?? days }));
  let [done, hasMore] = [0, true];
  for (const pieceEndsAt = Math.min(endsAt, Date.now() + maxPieceMs); hasMore && Date.now() < pieceEndsAt; done++) {
    if (done === Math.min(left, maxBatchesOfAccounts)) break;
    const startedAt = Date.now();
    hasMore = await writer.deleteOld(retentions, now);
    if (hasMore) await new Promise((resolve) => setTimeout(resolve, rest * (Date.now() - startedAt)));
  }
  return { done, hasMore };
}

async function deleteUsageOf({ env, now }: Run, accounts: AccountsOfStore, left: number): Promise<Piece> {
  const d1 = activityDatabase(env, accounts[0].logWriter);
  const ids = accounts.map(({ id }) => id);
  let [done, hasMore] = [0, true];
  for (; hasMore && done < left; done++) hasMore = await deleteOldUsage(d1, ids, now);
  return { done, hasMore };
}

/** Counts 1,000 rows for each group of accounts, in addition to the deleted rows. These rows limit the number of groups in a run to twenty. */
async function deleteHistoryOf({ outbox: { db }, now }: Run, accounts: AccountsOfStore, left: number): Promise<Piece> {
  const ids = accounts.map(({ id }) => id);
  const atMost = Math.min(left, historyOfAccounts);
  const deleted = [
    await deleteOldEvents(db, ids, now, atMost),
    await deleteOldRedeliveries(db, ids, now, atMost),
    await deleteOldAudit(db, ids, now, atMost),
    await deleteOldInvitations(db, ids, now, atMost),
    await deleteOldLinks(db, ids, now, atMost),
  ];
  return { done: deleted.reduce((sum, rows) => sum + rows, groupWorth), hasMore: deleted.some((rows) => rows >= atMost) };
}
