import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { jobs } from "../../../src/scheduled/jobs.ts";
import { runJobs } from "../../../src/scheduled/run-jobs.ts";
import { dayMs, hourMs } from "../../../src/time/clock.ts";
import { cron, makeTenant } from "../support/client.ts";
import { invocation, invocations } from "../support/counted.ts";
import { entryOf, write } from "../support/entries.ts";
import { makePerson } from "../support/people.ts";

type Row = Record<string, unknown>;
const runs = async (): Promise<Row[]> => (await env.DB.prepare("SELECT * FROM jobs").all<Row>()).results;

describe("The scheduled jobs", () => {
  it("keep how each went, and where it goes on", async () => {
    await env.DB.prepare("DELETE FROM jobs").run();
    const now = Date.now();
    await cron(now);
    const kept = await runs();
    expect(kept.map(({ name }) => name).toSorted()).toEqual(jobs.map(({ name }) => name).toSorted());
    for (const run of kept) expect(run).toMatchObject({ ran_at: now, error: null });
    // Within the hour, those that begin a round each hour wait for the next, but where they have left something: of other tests, here.
    const leftSomething = kept.filter(({ has_more }) => has_more === 1).map(({ name }) => name);
    await cron(now + 60_000);
    const again = (await runs()).filter(({ ran_at }) => ran_at === now + 60_000).map(({ name }) => name);
    expect(again.toSorted()).toEqual(
      jobs
        .filter(({ name, everyMs }) => everyMs < hourMs || leftSomething.includes(name))
        .map(({ name }) => name)
        .toSorted(),
    );
  });

  it("have names that labels and cursors can go by, and a description for people", async () => {
    for (const { name, description } of jobs)
      expect([name, description]).toEqual([expect.stringMatching(/^[a-z]+(_[a-z]+)+$/), expect.stringContaining(" ")]);
    expect(new Set(jobs.map(({ name }) => name)).size).toBe(jobs.length);
  });

  it("go on where an earlier release stored them under their description, and forget those that are no more", async () => {
    const [job] = jobs.filter(({ name }) => name === "delete_old_usage");
    const before = "INSERT INTO jobs (name, cursor, ran_at, took_ms, done, has_more) VALUES (?, ?, ?, 0, 0, ?)";
    const now = Date.now();
    await env.DB.batch([
      env.DB.prepare("DELETE FROM jobs"),
      // A round that is past every account ends at once.
      env.DB.prepare(before).bind(job?.description, "+acc_~", now - 60_000, 1),
      env.DB.prepare(before).bind("a job of before", "", now - dayMs, 0),
    ]);
    await cron(now);
    const kept = await runs();
    expect(kept.map(({ name }) => name).toSorted()).toEqual(jobs.map(({ name }) => name).toSorted());
    // It began after its cursor: a new round would have looked at accounts, and been done with them.
    expect(kept.find(({ name }) => name === job?.name)).toMatchObject({ done: 0, has_more: 1 });
  });

  it("reach every account in turn, for any number of accounts: a round that is not done goes on in the next minute", async () => {
    const name = "delete_old_log_entries";
    // More groups of fifty accounts than one run has batches for.
    const many = JSON.stringify(Array.from({ length: 3500 }, (_, index) => `acc_z${String(index).padStart(5, "0")}`));
    await env.DB.prepare("INSERT INTO accounts (id, name, email, created_at) SELECT value, 'n', 'e', 0 FROM json_each(?)").bind(many).run();
    const last = { accountId: "acc_z03499", keyId: "key_1" };
    const now = Date.now();
    await write([entryOf(last, now - 40 * dayMs)]);
    const left = () =>
      env.ACTIVITY_0.prepare("SELECT count(*) AS count FROM activity WHERE account_id = ?").bind(last.accountId).first("count");
    try {
      await env.DB.prepare("DELETE FROM jobs").run();
      await cron(now);
      const run = (await runs()).find((each) => each.name === name);
      expect(run).toMatchObject({ done: 60, has_more: 1 });
      expect(run?.cursor).toMatch(/^acc_z/);
      expect(await left()).toBe(1);
      await cron(now + 60_000);
      expect((await runs()).find((each) => each.name === name)).toMatchObject({ has_more: 0, cursor: "" });
      expect(await left()).toBe(0);
    } finally {
      await env.DB.prepare("DELETE FROM accounts WHERE id >= 'acc_z'").run();
    }
  });

  it("stay under a thousand D1 statements in one run, with more to do than all may do at once", async () => {
    const tenant = await makeTenant();
    const now = Date.now();
    const of = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => String(index).padStart(6, "0")));
    await env.DB.batch([
      env.DB.prepare("DELETE FROM jobs"),
      env.DB.prepare("INSERT INTO accounts (id, name, email, created_at) SELECT 'acc_y' || value, 'n', 'e', 0 FROM json_each(?)").bind(
        of(4000),
      ),
      env.DB.prepare(
        `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version, revision, created_at, updated_at)
        SELECT 'key_y' || value, ?1, 'n', 'last', 'hash' || value, '[]', 'active', 10, '[]', ?2, 2, 1, 'r' || value, 0, 0 FROM json_each(?3)`,
      ).bind(tenant.accountId, now + dayMs, of(600)),
      env.DB.prepare(
        `INSERT INTO users (id, account_id, name, email, email_key, search_text, role, status, deletion_requested_at, revision, created_at, updated_at)
        SELECT 'usr_y' || value, ?1, 'n', value, value, 'n', 'member', 'active', 1, 'r', 0, 0 FROM json_each(?2)`,
      ).bind(tenant.accountId, of(60)),
      env.DB.prepare(
        `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT 'dlv_y' || value, ?1, 'whk_y' || (value / 20), 'evt_1', 'task.created', 'pending', 0, 1, 0, 0 FROM json_each(?2)`,
      ).bind(tenant.accountId, of(3000)),
      env.DB.prepare(
        `INSERT INTO endings (account_id, target_id, target_name, action, actor_type, created_at)
        SELECT account_id, id, 'n', 'revoke_key', 'operator', 0 FROM api_keys WHERE account_id = ?1 AND id LIKE 'key_y%' LIMIT 30`,
      ).bind(tenant.accountId),
    ]);
    const old = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)";
    await env.DB.batch([
      env.DB.prepare(
        // They are looked at in the order in which they were stored: these are the first.
        `INSERT INTO idempotency_keys (rowid, account_id, operation, key_hash, fingerprint, status, headers, body, created_at)
        ${old} SELECT i - 30000, ?, 'POST /old', i, '', 200, '{}', '', 0 FROM n`,
      ).bind(tenant.accountId),
      env.DB.prepare(
        `INSERT INTO sessions (token_hash, id, member_id, verified_at, last_seen_at, created_at) ${old} SELECT 'old' || i, 'ses_old' || i, ?, 0, 0, 0 FROM n`,
      ).bind((await makePerson(tenant.accountId)).member.id),
      env.DB.prepare(
        `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
        ${old} SELECT 'dlv_00' || i, ?, 'whk_y', 'evt_1', 'task.created', 'delivered', 1, 0, 0, 0 FROM n`,
      ).bind(tenant.accountId),
    ]);
    const DELIVERIES = { sendBatch: async () => {} } as unknown as typeof env.DELIVERIES;
    await invocation("all jobs", () => runJobs({ ...env, DELIVERIES }, now, async () => {}));
    const { statements = 0 } = invocations("all jobs")[0]?.counts ?? {};
    const waiting = (await runs()).filter(({ has_more }) => has_more).map(({ name }) => name);
    for (let minute = 1; minute < 3; minute++) await cron(now + minute * 60_000);
    const left = await env.DB.prepare("SELECT count(*) AS count FROM idempotency_keys WHERE operation = 'POST /old'").first("count");
    await env.DB.batch([
      env.DB.prepare("DELETE FROM endings WHERE target_id LIKE 'key_y%'"),
      env.DB.prepare("DELETE FROM api_keys WHERE id LIKE 'key_y%'"),
      env.DB.prepare("DELETE FROM users WHERE id LIKE 'usr_y%'"),
      env.DB.prepare("DELETE FROM deliveries WHERE id LIKE 'dlv_y%'"),
      env.DB.prepare("DELETE FROM accounts WHERE id >= 'acc_y'"),
    ]);
    expect(waiting.length).toBeGreaterThan(3);
    expect(waiting).toEqual(
      expect.arrayContaining(["finish_removals", "delete_old_responses", "delete_old_deliveries", "delete_ended_sessions"]),
    );
    expect(left).toBe(0);
    expect(statements).toBeGreaterThan(300);
    expect(statements).toBeLessThan(900);
  });
});
