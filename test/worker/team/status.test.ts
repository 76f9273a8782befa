import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { runScheduledJobs } from "../../../src/app.ts";
import { alerting } from "../../../src/db/areas/monitoring/tables.ts";
import { databaseSizes } from "../../../src/db/tables.ts";
import { storeAlerting } from "../../../src/monitoring/alerting.ts";
import { countRequests } from "../../../src/monitoring/recent-requests.ts";
import { db, makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";

describe("GET /operator/api/status", () => {
  it("shows the databases with their room, the scheduled jobs and what needs a person", async () => {
    await runScheduledJobs(env, Date.now(), async () => {}).catch(() => {});
    await db.insert(databaseSizes).values({ binding: "STATUS", bytes: 9e9, isFull: false, measuredAt: Date.now() });
    const { status, body } = await operate("GET", "/status");
    await env.DB.prepare("DELETE FROM database_sizes WHERE binding = 'STATUS'").run();
    expect(status).toBe(200);
    expect(body.databases).toContainEqual({ name: "STATUS", bytes: 9e9, bytes_left: 0.5e9 });
    expect(body.needs_attention).toContainEqual({
      name: "DatabaseNearlyFull",
      severity: "ticket",
      summary: "The database STATUS has 9.0 of its 10 GB.",
      runbook: "docs/runbooks/full-database.md",
    });
    expect(Date.now() - Date.parse(body.jobs_ran_at)).toBeLessThan(60_000);
  });
});

it("The status does not count what cannot be read", async () => {
  const rename = (from: string, to: string) => env.DB.prepare(`ALTER TABLE ${from} RENAME TO ${to}`).run();
  await rename("jobs", "jobs_away");
  await rename("api_keys", "api_keys_away");
  const { status, body } = await operate("GET", "/status");
  await rename("api_keys_away", "api_keys");
  await rename("jobs_away", "jobs");
  expect([status, body.accounts, body.live_keys, body.jobs_ran_at]).toEqual([200, null, null, null]);
  expect(body.unknown).toEqual(expect.arrayContaining(["accounts and keys", "the scheduled jobs"]));
  expect(body.needs_attention.map(({ name }: { name: string }) => name)).not.toContain("CronDead");
});

it("The status says that an account whose database is not bound needs a person", async () => {
  const { accountId } = await makeTenant();
  await env.DB.prepare("UPDATE accounts SET log_writer = 'ACTIVITY_9/0' WHERE id = ?").bind(accountId).run();
  const { body } = await operate("GET", "/status");
  await env.DB.prepare("UPDATE accounts SET log_writer = 'ACTIVITY_0/0' WHERE id = ?").bind(accountId).run();
  expect(body.unknown).toContain("the traffic of the log writer ACTIVITY_9/0");
  expect(body.needs_attention).toContainEqual({
    name: "PartUnreadable",
    severity: "ticket",
    summary: "This could not be read: the traffic of the log writer ACTIVITY_9/0.",
    runbook: "docs/runbooks/cloudflare-outage.md",
  });
});

it("The status compares the requests with those that cron has counted, and says if they fail", async () => {
  await makeTenant();
  await db.delete(alerting);
  const { body: before } = await operate("GET", "/status");
  expect(before.unknown).toContain("the requests of the last minutes, and those that failed");
  const counted = await countRequests(env);
  if (counted === null) throw new Error("a log writer does not respond");
  // Since a minute ago, 200 requests were served, and 100 of them failed.
  const sample = { at: Date.now() - 60_000, requests: counted.requests - 200, failed: counted.failed - 100 };
  await storeAlerting(db, { states: [], samples: [sample] });
  const { body } = await operate("GET", "/status");
  await db.delete(alerting);
  expect(body.unknown).not.toContain("the requests of the last minutes, and those that failed");
  expect(body.needs_attention).toContainEqual({
    name: "RequestsFail",
    severity: "page",
    summary: expect.stringMatching(/^1\d\d of 2\d\d requests failed with a 5xx status\.$/),
    runbook: "docs/runbooks/roll-back.md",
  });
});

describe("GET /operator/api/audit", () => {
  it("filters by account, action, target, operator and time", async () => {
    const { body: account } = await operate("POST", "/accounts", { name: "Audited", email: "audit@acme.dev" });
    await operate("PATCH", `/accounts/${account.id}`, { limit_ceiling: 4000 });
    const { body: key } = await operate("POST", `/accounts/${account.id}/keys`, { name: "Audited", scopes: [] });
    const actions = async (query: string) =>
      (await operate("GET", `/audit?${query}`)).body.data.map(({ action }: { action: string }) => action) as string[];
    const all = await actions(`account_id=${account.id}`);
    expect(all.length).toBe(3);
    expect(await actions(`account_id=${account.id}&action=account`)).toEqual(all.filter((each) => each.startsWith("account.")));
    expect(await actions(`account_id=${account.id}&action=acc`)).toEqual([]);
    expect(await actions(`target_id=${key.id}`)).toEqual(all.slice(0, 1));
    expect(await actions(`account_id=${account.id}&operator=nobody`)).toEqual([]);
    expect(await actions(`account_id=${account.id}&to=2026-01-01T00:00:00Z`)).toEqual([]);
    expect(await actions(`account_id=${account.id}&from=2026-01-01T00:00:00Z`)).toEqual(all);
    expect((await operate("GET", "/audit?from=yesterday")).status).toBe(400);
  });
});
