import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { runScheduledJobs } from "../../../src/app.ts";
import { databaseSizes } from "../../../src/db/tables.ts";
import { db, makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";

describe("GET /team/v1/status", () => {
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

describe("GET /team/v1/audit", () => {
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
