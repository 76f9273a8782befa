import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { connect } from "../../src/db/client.ts";
import { measureDatabases } from "../../src/db/database-sizes.ts";
import { jobs } from "../../src/jobs/jobs.ts";
import { dayMs, hourStart } from "../../src/lib/time/clock.ts";
import { leastBusyWriter } from "../../src/log/writers.ts";
import { onDelete } from "../../src/resources/on-delete.ts";
import { readLastUse } from "../../src/usage/last-uses.ts";
import { db, makeTenant, readingLog } from "./support/client.ts";
import { entryOf, flush, write } from "./support/entries.ts";
import { countEntries } from "./support/log-rows.ts";
import { hurryTimeouts } from "./support/real-time.ts";

// If a database or a queue hangs, fails or is overloaded, other work is not delayed.

const never = () => new Promise(() => {});
const hangingStatement = { bind: () => hangingStatement, all: never, first: never, run: never, raw: never };
const hangingD1 = { prepare: () => hangingStatement, batch: never } as unknown as D1Database;

const jobNamed = (name: string) => {
  const job = jobs.find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  return job;
};
const jobContext = (bindings: Env, atMost: number) => ({
  env: bindings,
  now: Date.now(),
  outbox: { db },
  onDelete,
  deliver: async () => {},
  cursor: "",
  atMost,
  endsAt: Date.now() + 5000,
});

const deleteMeasurements = () => env.DB.prepare("DELETE FROM database_sizes").run();
const readMeasuredDatabases = async () =>
  (await env.DB.prepare("SELECT binding FROM database_sizes").all<{ binding: string }>()).results.map(({ binding }) => binding);

const setLogWriter = (accountId: string, logWriter: string) =>
  env.DB.prepare("UPDATE accounts SET log_writer = ? WHERE id = ?").bind(logWriter, accountId).run();

describe("A database that hangs or fails", () => {
  it("does not prevent the measurement of other databases", async () => {
    hurryTimeouts();
    await deleteMeasurements();
    await measureDatabases(
      db,
      [
        ["DB", env.DB],
        ["ACTIVITY_7", hangingD1],
      ],
      Date.now(),
    );
    expect(await readMeasuredDatabases()).toEqual(["DB"]);
  });

  it("makes the last use of a key unknown after less than three seconds", async () => {
    const { accountId, keyId } = await makeTenant();
    const startedAt = Date.now();
    expect(await readLastUse({ ...readingLog(accountId), activity: connect(hangingD1) }, keyId)).toMatchObject({ isUseKnown: false });
    expect(Date.now() - startedAt).toBeLessThan(3000);
  });

  it("does not prevent the retention of accounts in other databases", async () => {
    const [hanging, other] = [await makeTenant({}, "ACTIVITY_7/0"), await makeTenant()];
    await write([entryOf(other, hourStart(Date.now()) - 40 * dayMs)]);
    await flush(other);
    const context = {
      ...jobContext(env, 60),
      // The run starts at these two accounts. Otherwise, the run would first process the accounts of all other tests, and could end before
      // these two accounts.
      cursor: hanging.accountId.slice(0, -1),
    };
    const outcome = await jobNamed("delete_old_log_entries")
      .run(context)
      .finally(() => setLogWriter(hanging.accountId, "ACTIVITY_0/0"));
    expect(outcome.errors).not.toEqual([]);
    expect(await countEntries(other.accountId)).toBe(0);
  }, 60_000);

  it("does not prevent the creation of accounts in another database", async () => {
    const failingD1 = { prepare: () => ({ run: () => Promise.reject(new Error("D1_ERROR: away")) }) };
    expect(await leastBusyWriter({ ...env, ACTIVITY_1: failingD1 } as unknown as Env)).toMatch(/^ACTIVITY_0\/\d$/);
  });
});
