import { listAccounts } from "../../src/accounts/account.ts";
import { systemOn } from "../../src/accounts/actor.ts";
import { connect } from "../../src/db/client.ts";
import { jobs } from "../../src/jobs/jobs.ts";
import { idBound, newId } from "../../src/lib/ids.ts";
import type { Entry } from "../../src/log/entry.ts";
import { search } from "../../src/log/read/read-activity.ts";
import { storeHistory } from "../../src/log/writer/store-history.ts";
import { logOf, readWriters, writerAt, writersOf } from "../../src/log/writers.ts";
import { onDelete } from "../../src/resources/on-delete.ts";
import { sweepDeliveries } from "../../src/webhooks/deliveries/sweep.ts";
import { benchEntry } from "./entry.ts";

export { KeyGuard } from "../../src/guard/key-guard.ts";
export { ActivityWriter } from "../../src/log/writer/activity-writer.ts";

/** The log entries to create. The entries are spread evenly over the accounts, the keys and the time from `from` to `to`. */
interface Fill {
  accounts: string[];
  keys: number;
  /** The number of entries per account. */
  entries: number;
  from: number;
  to: number;
  /** Whether the entries are as long as entries can be. */
  size?: "usual" | "longest";
}

/** Returns the fields of an entry that are as long as they can be. */
const longest = (index: number): Partial<Entry> => ({
  path: `/api/v1/${String(index).padEnd(1016, "ü")}`,
  userAgent: String(index).padEnd(128, "ü"),
  problem: { detail: String(index).padEnd(990, "ü"), errors: [] },
});

const entriesOf = (accountId: string, { keys, entries, from, to, size }: Fill): Entry[] =>
  Array.from({ length: entries }, (_, index) =>
    benchEntry(
      { accountId, id: newId("req", Math.floor(from + ((to - from) * index) / entries)), keyId: `key_${accountId}${index % keys}` },
      {
        route: index % 3 > 0 ? "/api/v1/tasks/{id}" : "/api/v1/me",
        status: index % 10 > 0 ? 200 : 404,
        durationMs: Math.floor(Math.random() * 300),
        ...(size === "longest" ? longest(index) : {}),
      },
    ),
  );

/** Returns the name of the log writer of an account. The verb `accounts` gives the account the same one. */
const writerOf = (accountId: string, env: Env): string => `ACTIVITY_0/${Number(accountId.slice("acc_".length)) % writersOf(env)}`;

/** Stores entries in D1, as if they had been cut. */
async function fill(given: Fill, env: Env): Promise<void> {
  for (const accountId of given.accounts)
    await storeHistory(connect(env.ACTIVITY_0), writerOf(accountId, env), entriesOf(accountId, given), given.to);
}

/** Gives entries to log writers. */
async function append(given: Fill, env: Env): Promise<void> {
  const all = given.accounts.flatMap((accountId) => entriesOf(accountId, given));
  const byWriter = Map.groupBy(all, ({ accountId }) => writerOf(accountId, env));
  await Promise.all([...byWriter].map(([logWriter, entries]) => writerAt(env, logWriter).write(entries)));
}

/** Returns those of the given request ids that have no log entry in any account. */
async function missingEntries(ids: string[], env: Env): Promise<string[]> {
  const db = connect(env.DB);
  const left = new Set(ids);
  for (const { id, logWriter } of await listAccounts(db)) {
    const context = { db, actor: systemOn(id), now: Date.now(), ...logOf(env, logWriter) };
    for (let before: string | null = null; ; ) {
      const { entries, completeFrom } = await search(context, { filter: {}, before, from: null, limit: 5000 });
      for (const entry of entries) left.delete(entry.id);
      before = completeFrom;
      if (before === null) break;
    }
  }
  return [...left];
}

async function missing(d1: D1Database, sql: string, ids: string[]): Promise<string[]> {
  const { results } = await d1.prepare(sql).bind(JSON.stringify(ids)).all<{ id: string }>();
  const found = new Set(results.map(({ id }) => id));
  return ids.filter((id) => !found.has(id));
}

/** Maps each URL path to a command of this Worker. */
const verbs: Record<string, (body: never, env: Env) => Promise<unknown>> = {
  fill,
  accounts: async (ids: string[], env) =>
    env.DB.prepare(
      "INSERT INTO accounts (id, name, email, log_writer, created_at) SELECT value, 'Bench', 'bench@example.com', 'ACTIVITY_0/' || (substr(value, 5) % 4), 0 FROM json_each(?)",
    )
      .bind(JSON.stringify(ids))
      .run(),
  append,
  missingEntries,
  /** Returns those of the given ids whose task does not exist or has no event. */
  missingTasks: async (ids: string[], env) =>
    missing(
      env.DB,
      "SELECT tasks.id FROM tasks WHERE id IN (SELECT value FROM json_each(?)) AND EXISTS (SELECT 1 FROM events WHERE events.account_id = tasks.account_id AND json_extract(data, '$.id') = tasks.id)",
      ids,
    ),
  accountIds: async (_, env) =>
    (await env.DB.prepare("SELECT id FROM accounts ORDER BY id").all<{ id: string }>()).results.map(({ id }) => id),
  writers: async (_, env) => readWriters(env),
  /** Collects garbage. V8 offers the function `gc` only with its flag `--expose-gc`. */
  collectGarbage: async () => (globalThis as unknown as { gc: () => void }).gc(),
  /** Runs a scheduled job. In the result, `next` is the cursor for the next run. If nothing is left to do, `next` is null. */
  job: async ({ name, cursor, now }: { name: string; cursor: string; now: number }, env) => {
    const job = jobs.find((each) => each.name === name);
    const outbox = { db: connect(env.DB) };
    return job?.run({ env, now, outbox, onDelete, deliver: async () => {}, cursor, atMost: job.atMost, endsAt: Date.now() + 40_000 });
  },
  /** Returns the number of segments whose entries are from before a time. */
  segmentsBefore: async (before: number, env) =>
    env.ACTIVITY_0.prepare("SELECT count(*) AS count FROM activity_segments WHERE last_id < ?").bind(idBound("req", before)).first("count"),
  /** Inserts deliveries that are past their retention, with one attempt each. */
  oldDeliveries: async (count: number, env) => {
    const counted = "WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)";
    await env.DB.batch([
      env.DB.prepare(
        `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, claimed_until, created_at)
          ${counted} SELECT 'dlv_' || printf('%032x', n), 'acc_1', 'whk_1', 'evt_1', 'task.created', 'delivered', 1, 0, 0 FROM counted`,
      ).bind(count),
      env.DB.prepare(
        `INSERT INTO attempts (delivery_id, id, at, status, duration_ms, response_body, response_headers)
          ${counted} SELECT 'dlv_' || printf('%032x', n), 'att_1', 0, 200, 1, '', '{}' FROM counted`,
      ).bind(count),
    ]);
  },
  /** Inserts one due delivery for each number in `deliveries`. The deliveries are spread over the webhooks. */
  due: async ({ deliveries, webhooks }: { deliveries: number[]; webhooks: number }, env) =>
    env.DB.prepare(
      `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_' || printf('%032x', value), 'acc_' || (value % ?2 / 5), 'whk_' || printf('%05d', value % ?2), 'evt_1', 'task.created', 'pending', 0, value, 0, 0 FROM json_each(?1)`,
    )
      .bind(JSON.stringify(deliveries), webhooks)
      .run(),
  sweep: async (cursor: string, env) => {
    const queue = { sendBatch: async () => {} } as unknown as Env["DELIVERIES"];
    const startedAt = Date.now();
    const swept = await sweepDeliveries({ db: connect(env.DB), queue, deliver: async () => {} }, Date.now(), cursor, 1000);
    return { ...swept, tookMs: Date.now() - startedAt };
  },
};

export default {
  async fetch(request, env) {
    if (request.method === "GET") return new Response("ready");
    const verb = verbs[new URL(request.url).pathname.slice(1)];
    if (!verb) return new Response("no such verb", { status: 404 });
    return Response.json((await verb((await request.json()) as never, env)) ?? null);
  },
} satisfies ExportedHandler<Env>;
