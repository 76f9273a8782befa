import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import type { Entry } from "../../../src/log/entry.ts";
import type { ActivityWriter } from "../../../src/log/writer/activity-writer.ts";
import { nextFlushAt } from "../../../src/log/writer/flush.ts";
import { logOf } from "../../../src/log/writers.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { openSnapshot } from "../../../src/usage/usage-snapshot.ts";
import { makeTenant, readingLog, type Tenant } from "./client.ts";
import { entryOf } from "./entries.ts";
import { readEntries } from "./log-rows.ts";

// Helpers for tests of single log writers.

type Writer = DurableObjectStub<ActivityWriter>;

let nextNumber = Math.floor(1000 + Math.random() * 1_000_000);
/**
 * Returns a log writer that no other test uses, and an account that belongs to it. Its next flush is at least a minute away, so that its own alarm does not
 * run during the test.
 */
export async function makeOwned(): Promise<{ name: string; writer: Writer; tenant: Tenant }> {
  let name = "";
  do name = `ACTIVITY_0/${nextNumber++}`;
  while (nextFlushAt(name, Date.now()) < Date.now() + minuteMs);
  return { name, writer: env.ACTIVITY_WRITER.getByName(name), tenant: await makeTenant({}, name) };
}

/**
 * Replaces the database that a log writer uses. The replacement lasts until the log writer is evicted, or until the test ends. After the test, the
 * scheduled jobs of other tests also call the log writer.
 */
export function replaceD1(writer: Writer, ACTIVITY_0: D1Database): Promise<void> {
  const use = (bindings: object) => runInDurableObject(writer, (instance) => void Object.assign(instance, { env: bindings }));
  onTestFinished(() => use(env));
  return use({ ...env, ACTIVITY_0 });
}

export const entriesOf = (tenant: Tenant, count: number, ageMs = 0): Entry[] =>
  Array.from({ length: count }, (_, index) => entryOf(tenant, Date.now() - ageMs - index));

export const idsOf = (entries: readonly Entry[]) => entries.map(({ id }) => id).toSorted();
export const readIds = async ({ accountId }: Tenant, name: string) => idsOf(await readEntries(accountId, name));

export const readRequests = async (tenant: Tenant, name: string) => {
  const context = { ...readingLog(tenant.accountId), ...logOf(env, name) };
  return (await readUsage(await openSnapshot(context), { window: "24h" })).totalRequests.value;
};

export const countSegments = (accountId: string) =>
  env.ACTIVITY_0.prepare("SELECT count(*) AS count FROM activity_segments WHERE account_id = ?").bind(accountId).first<number>("count");

/** Overwrites the body of the oldest segment of an account. */
export const damageFirstSegment = (accountId: string) =>
  env.ACTIVITY_0.prepare(
    "UPDATE activity_segments SET body = X'00' WHERE id = (SELECT min(id) FROM activity_segments WHERE account_id = ?)",
  )
    .bind(accountId)
    .run();
