import { wakeWriters, writerOf, writersOf } from "../../src/activity/writers.ts";
import { connect } from "../../src/db/client.ts";
import { onDelete } from "../../src/references/on-delete.ts";
import { jobs } from "../../src/scheduled/jobs.ts";
import { bucketStart, minuteMs } from "../../src/time/clock.ts";
import { sweepDeliveries } from "../../src/webhooks/sweep.ts";

export { ActivityWriter } from "../../src/activity/activity-writer.ts";
export { KeyGuard } from "../../src/admission/key-guard.ts";

/**
 * The log entries to create. The entries are spread evenly over the accounts, the keys and the time from `from` to `to`. If `areFolded` is not
 * true, the buckets of the entries are marked dirty, as a log writer does.
 */
interface Fill {
  accounts: string[];
  keys: number;
  /** The number of entries per account. */
  entries: number;
  from: number;
  to: number;
  /** Whether the buckets count as rolled up. Such buckets are not marked dirty. */
  areFolded?: boolean;
}

async function fill({ accounts, keys, entries, from, to, areFolded = false }: Fill, env: Env): Promise<void> {
  const slices: number[] = [];
  for (let start = bucketStart(from); start < to; start = bucketStart(start) + 5 * minuteMs) slices.push(start);
  const marks = areFolded ? [] : accounts.flatMap((id) => slices.map((start) => [id, start, writerOf(id, writersOf(env))]));
  await env.ACTIVITY_0.batch([
    env.ACTIVITY_0.prepare(
      `INSERT INTO activity (account_id, id, key_id, method, path, route, status, duration_ms, ip, country, user_agent, error_code, admitted, counted, count, secret)
      SELECT account.value, 'req_' || printf('%012x', ?4 + abs(random()) % ?5) || lower(hex(randomblob(10))), 'key_' || account.value || (n.value % ?3), 'GET',
        '/api/v1/tasks/tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708', iif(n.value % 3, '/api/v1/tasks/{id}', '/api/v1/me'), iif(n.value % 10, 200, 404), abs(random()) % 300,
        '198.51.100.7', 'NL', 'bench/1.0', NULL, 1, 1, 1, 'current'
      FROM json_each(?1) AS account, json_each(?2) AS n`,
    ).bind(JSON.stringify(accounts), JSON.stringify(Array.from({ length: entries }, (_, index) => index)), keys, from, to - from),
    env.ACTIVITY_0.prepare(
      "INSERT OR IGNORE INTO stale_slices (account_id, start, writer, since) SELECT value ->> 0, value ->> 1, value ->> 2, 0 FROM json_each(?)",
    ).bind(JSON.stringify(marks)),
  ]);
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
    env.DB.prepare("INSERT INTO accounts (id, name, email, created_at) SELECT value, 'Bench', 'bench@example.com', 0 FROM json_each(?)")
      .bind(JSON.stringify(ids))
      .run(),
  /** Returns those of the given request ids that have no log entry. */
  missingEntries: async (ids: string[], env) =>
    missing(env.ACTIVITY_0, "SELECT id FROM activity WHERE id IN (SELECT value FROM json_each(?))", ids),
  /** Returns those of the given ids whose task does not exist or has no event. */
  missingTasks: async (ids: string[], env) =>
    missing(
      env.DB,
      "SELECT tasks.id FROM tasks WHERE id IN (SELECT value FROM json_each(?)) AND EXISTS (SELECT 1 FROM events WHERE events.account_id = tasks.account_id AND json_extract(data, '$.id') = tasks.id)",
      ids,
    ),
  accountIds: async (_, env) =>
    (await env.DB.prepare("SELECT id FROM accounts ORDER BY id").all<{ id: string }>()).results.map(({ id }) => id),
  wake: async (now: number, env) => wakeWriters(env, now),
  stale: async (before: number, env) =>
    env.ACTIVITY_0.prepare("SELECT count(*) AS count FROM stale_slices WHERE start < ?").bind(before).first("count"),
  /**
   * Runs the job that deletes old log entries. In the result, `next` is the cursor for the next run. If nothing is left to delete, `next` is
   * null.
   */
  retain: async ({ cursor, now }: { cursor: string; now: number }, env) => {
    const job = jobs.find(({ name }) => name === "delete_old_log_entries");
    const outbox = { db: connect(env.DB) };
    return job?.run({ env, now, outbox, onDelete, deliver: async () => {}, cursor, atMost: job.atMost, endsAt: Date.now() + 40_000 });
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
