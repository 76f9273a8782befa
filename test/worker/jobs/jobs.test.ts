import { env } from "cloudflare:workers";
import { describe, expect, inject, it } from "vitest";
import { runScheduledJobs } from "../../../src/app.ts";
import { jobs as ofAreas } from "../../../src/jobs/jobs.ts";
import { dayMs, hourMs } from "../../../src/lib/time/clock.ts";
import { resourceJobs } from "../../../src/resources/jobs.ts";
import { cron, makeTenant } from "../support/client.ts";
import { invocation, invocations } from "../support/counted.ts";
import { entryOf, flush, write } from "../support/entries.ts";
import { countEntries } from "../support/log-rows.ts";
import { makePerson } from "../support/people.ts";
import { deleteJobs, insertJob, readJobs } from "../support/storage-rows.ts";

const jobs = [...resourceJobs, ...ofAreas];

const namesOf = (rows: readonly { name?: unknown }[]) => rows.map(({ name }) => name).toSorted();
const readJob = async (name: string | undefined) => (await readJobs()).find((job) => job.name === name);

/** Inserts `count` accounts. Each id consists of `prefix` and a number with `digits` digits. */
const insertAccounts = (prefix: string, count: number, digits: number) =>
  env.DB.prepare("INSERT INTO accounts (id, name, email, created_at) SELECT ? || value, 'n', 'e', 0 FROM json_each(?)")
    .bind(prefix, JSON.stringify(Array.from({ length: count }, (_, index) => String(index).padStart(digits, "0"))))
    .run();

const deleteAccountsFrom = (id: string) => env.DB.prepare("DELETE FROM accounts WHERE id >= ?").bind(id).run();

/** `insertWorkForAllJobs` inserts stored responses for this operation. */
const oldOperation = "POST /old";

/** For every job, inserts more work than one run can do. All inserted rows belong to one account, except the rows of accounts. */
async function insertWorkForAllJobs(accountId: string, now: number): Promise<void> {
  const numbers = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => String(index).padStart(6, "0")));
  const { member } = await makePerson(accountId);
  await insertAccounts("acc_y", 4000, 6);
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO api_keys
          (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version,
            revision, created_at, updated_at)
        SELECT 'key_y' || value, ?1, 'n', 'last', 'hash' || value, '[]', 'active', 10, '[]', ?2, 2, 1, 'r' || value, 0, 0
        FROM json_each(?3)`,
    ).bind(accountId, now + dayMs, numbers(600)),
    env.DB.prepare(
      `INSERT INTO users
          (id, account_id, name, email, email_key, search_text, role, status, deletion_requested_at, revision, created_at, updated_at)
        SELECT 'usr_y' || value, ?1, 'n', value, value, 'n', 'member', 'active', 1, 'r', 0, 0 FROM json_each(?2)`,
    ).bind(accountId, numbers(60)),
    env.DB.prepare(
      `INSERT INTO deliveries
          (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT 'dlv_y' || value, ?1, 'whk_y' || (value / 20), 'evt_1', 'task.created', 'pending', 0, 1, 0, 0 FROM json_each(?2)`,
    ).bind(accountId, numbers(3000)),
    env.DB.prepare(
      `INSERT INTO erasures (account_id, log_writer, operator, requested_at, erased, finished_at)
        SELECT 'acc_e' || value, 'ACTIVITY_0/0', 'tests', 0, '{"keys":0}', 0 FROM json_each(?)`,
    ).bind(numbers(4)),
  ]);
  const counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)";
  await env.DB.batch([
    env.DB.prepare(
      // The job reads rows in the order of their row ids. These rows come first, because their row ids are low.
      `INSERT INTO idempotency_keys (rowid, account_id, operation, key_hash, fingerprint, status, headers, body, created_at)
        ${counted} SELECT i - 30000, ?, ?, i, '', 200, '{}', '', 0 FROM n`,
    ).bind(accountId, oldOperation),
    env.DB.prepare(
      `INSERT INTO sessions (token_hash, id, member_id, verified_at, last_seen_at, created_at)
        ${counted} SELECT 'old' || i, 'ses_old' || i, ?, 0, 0, 0 FROM n`,
    ).bind(member.id),
    env.DB.prepare(
      `INSERT INTO deliveries
          (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
        ${counted} SELECT 'dlv_00' || i, ?, 'whk_y', 'evt_1', 'task.created', 'delivered', 1, 0, 0, 0 FROM n`,
    ).bind(accountId),
  ]);
}

const countOldResponses = () =>
  env.DB.prepare("SELECT count(*) AS count FROM idempotency_keys WHERE operation = ?").bind(oldOperation).first("count");

/** Deletes the rows of `insertWorkForAllJobs` that the jobs have not deleted. */
const deleteRemainingWork = () =>
  env.DB.batch([
    env.DB.prepare("DELETE FROM erasures WHERE account_id LIKE 'acc_e0%'"),
    env.DB.prepare("DELETE FROM api_keys WHERE id LIKE 'key_y%'"),
    env.DB.prepare("DELETE FROM users WHERE id LIKE 'usr_y%'"),
    env.DB.prepare("DELETE FROM deliveries WHERE id LIKE 'dlv_y%'"),
    env.DB.prepare("DELETE FROM accounts WHERE id >= 'acc_y'"),
  ]);

describe("The scheduled jobs", () => {
  it("store the result and the next position of each run", async () => {
    await deleteJobs();
    const now = Date.now();
    await cron(now);
    const firstRuns = await readJobs();
    expect(namesOf(firstRuns)).toEqual(namesOf(jobs));
    for (const run of firstRuns) expect(run).toMatchObject({ ran_at: now, error: null });
    // Some jobs start one round each hour. Such a job runs again within the hour only if its round is unfinished. A round can be unfinished
    // because other tests have left much work.
    const unfinished = firstRuns.filter(({ has_more }) => has_more === 1).map(({ name }) => name);
    await cron(now + 60_000);
    const secondRuns = (await readJobs()).filter(({ ran_at }) => ran_at === now + 60_000);
    expect(namesOf(secondRuns)).toEqual(namesOf(jobs.filter(({ name, everyMs }) => everyMs < hourMs || unfinished.includes(name))));
  });

  it("continue at their cursors, and delete runs of unknown jobs", async () => {
    const job = jobs.find(({ name }) => name === "delete_old_usage");
    const now = Date.now();
    await deleteJobs();
    // The cursor is already past the last account, so the round ends at once.
    await insertJob(job?.name ?? "", "+acc_~", now - 60_000, true);
    await insertJob("an unknown job", "", now - dayMs, false);
    await cron(now);
    expect(namesOf(await readJobs())).toEqual(namesOf(jobs));
    // The job continued at its cursor. If the job had started a new round, it would have processed all accounts, and no work would remain.
    expect(await readJob(job?.name)).toMatchObject({ done: 0, has_more: 1 });
  });

  it("reach every account in turn, and continue an unfinished round in the next minute", async () => {
    const job = jobs.find(({ name }) => name === "delete_old_log_entries");
    const name = job?.name;
    // The job processes accounts in groups of 50. One run cannot process all groups, because the number of batches in a run is limited.
    await insertAccounts("acc_z", 2500, 5);
    const lastAccount = { accountId: "acc_z02499", keyId: "key_1" };
    const now = Date.now();
    await write([entryOf(lastAccount, now - 40 * dayMs)]);
    await flush(lastAccount);
    try {
      await deleteJobs();
      // The round is past the accounts of other tests. How many accounts these tests have left is not known.
      await insertJob(job?.name ?? "", "acc_z", now - 60_000, true);
      await cron(now);
      const run = await readJob(name);
      expect(run).toMatchObject({ done: 40, has_more: 1 });
      expect(run?.cursor).toBe("acc_z01999");
      expect(await countEntries(lastAccount.accountId)).toBe(1);
      await cron(now + 60_000);
      expect(await readJob(name)).toMatchObject({ has_more: 0, cursor: "" });
      expect(await countEntries(lastAccount.accountId)).toBe(0);
    } finally {
      await deleteAccountsFrom("acc_z");
    }
  });

  it.runIf(inject("isLong"))(
    "run fewer than 900 D1 statements in total, even if every job has more work than one run may do",
    {
      tags: ["long"],
    },
    async () => {
      const tenant = await makeTenant();
      const now = Date.now();
      await deleteJobs();
      await insertWorkForAllJobs(tenant.accountId, now);
      const DELIVERIES = { sendBatch: async () => {} } as unknown as typeof env.DELIVERIES;
      await invocation("all jobs", () => runScheduledJobs({ ...env, DELIVERIES }, now, async () => {}));
      const { statements = 0 } = invocations("all jobs")[0]?.counts ?? {};
      const unfinished = (await readJobs()).filter(({ has_more }) => has_more).map(({ name }) => name);
      for (let minute = 1; minute < 3; minute++) await cron(now + minute * 60_000);
      const oldResponses = await countOldResponses();
      await deleteRemainingWork();
      expect(unfinished.length).toBeGreaterThan(3);
      expect(unfinished).toEqual(
        expect.arrayContaining(["finish_erasures", "delete_old_responses", "delete_old_deliveries", "delete_ended_sessions"]),
      );
      expect(oldResponses).toBe(0);
      expect(statements).toBeGreaterThan(300);
      expect(statements).toBeLessThan(900);
    },
  );
});
