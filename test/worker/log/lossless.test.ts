/** @module-tag long */
import {
  abortAllDurableObjects,
  createExecutionContext,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, inject, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { openSnapshot } from "../../../src/usage/usage-snapshot.ts";
import { makeKey, makeTenant, readingLog } from "../support/client.ts";
import { readEntries } from "../support/log-rows.ts";
import { untilClockReaches } from "../support/real-time.ts";

// This test sends requests with twenty keys. D1 is unavailable during a part of the test. While D1 is available, the response to every
// third batch is lost. During the test, guards and log writers are killed and evicted. The long form sends 10,000 requests in 80 seconds.

const { requests, roundMs, outage, smallLimit } = inject("isLong")
  ? { requests: 10_000, roundMs: 800, outage: { from: 8_000, to: 68_000 }, smallLimit: 200 }
  : { requests: 2000, roundMs: 500, outage: { from: 2_500, to: 6_500 }, smallLimit: 20 };
const requestsPerRound = 100;

/** Returns the number of an account's requests in the hourly totals and in the daily totals of D1. */
const sumTotals = (accountId: string) =>
  env.ACTIVITY_0.prepare(
    `SELECT (SELECT sum(cell.value ->> 2) FROM hour_totals, json_each(keys) AS rollup, json_each(rollup.value, '$[2]') AS cell WHERE account_id = ?1) AS hours,
      (SELECT sum(cell.value ->> 2) FROM day_totals, json_each(keys) AS rollup, json_each(rollup.value, '$[2]') AS cell WHERE account_id = ?1) AS days`,
  )
    .bind(accountId)
    .first();

it("Each admitted request has one log entry and each denied request is counted, even while D1, guards and log writers fail", async () => {
  const { accountId } = await makeTenant();
  const keys = await Promise.all(
    Array.from({ length: 20 }, (_, index) => makeKey(accountId, { hourlyLimit: index < 15 ? 5000 : smallLimit })),
  );
  const startedAt = Date.now();
  const isDown = () => Date.now() >= startedAt + outage.from && Date.now() < startedAt + outage.to;
  let [batches, lostResponses] = [0, 0];
  const failingD1 = new Proxy(env.ACTIVITY_0, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        if (isDown()) throw new Error("D1_ERROR: Network connection lost");
        const result = member.apply(target, args);
        if (name !== "batch" || ++batches % 3 > 0) return result;
        // D1 has written the batch, but the log writer gets an error and sends the same batch again.
        return result.then(() => {
          lostResponses++;
          throw new Error("D1_ERROR: Network connection lost");
        });
      };
    },
  });
  let maxWaiting = 0;
  const writers = () => [0, 1, 2, 3].map((number) => env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${number}`));
  const owner = () => env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0");
  const ctx = createExecutionContext();
  const app = createApp({ isLocal: true });

  const admitted = new Set<string>();
  let denied = 0;
  let failed = 0;
  const send = async (index: number) => {
    const init = { headers: { Authorization: `Bearer ${keys[index % keys.length]?.key}` } };
    const request = new Request("http://localhost/api/v1/me", init);
    const { status, headers } = await app.fetch(request, { ...env, ACTIVITY_0: failingD1 }, ctx);
    if (status === 200) admitted.add(headers.get("X-Request-Id") ?? "");
    else if (status === 429) denied++;
    else failed++;
  };
  for (let from = 0; from < requests; from += requestsPerRound) {
    const round = from / requestsPerRound;
    // A log writer that was killed in the last round uses the real database again. The test therefore replaces the database of each log
    // writer in every round.
    for (const writer of writers()) {
      await runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0: failingD1 } }));
      maxWaiting = Math.max(maxWaiting, (await writer.status()).oldestWaitingAt === null ? 0 : 1);
    }
    const sent = Array.from({ length: requestsPerRound }, (_, index) => send(from + index));
    if (round % 13 === 12) await abortAllDurableObjects();
    await Promise.all(sent);
    // Each round starts at a fixed time. Some rounds therefore run before the outage, some during the outage and some after the outage.
    // Flushes the log of the account and stores the flush, if D1 is available.
    if (round % 2 === 1)
      await owner()
        .flush(accountId)
        .catch(() => {});
    await untilClockReaches(Math.max(Date.now() + 20, startedAt + (round + 1) * roundMs));
    if (round % 17 === 16)
      await Promise.all(
        [...keys.slice(0, 5).map(({ keyId }) => env.KEY_GUARD.getByName(keyId)), ...writers()].map((object) =>
          evictDurableObject(object).catch(() => {}),
        ),
      );
  }
  expect(isDown()).toBe(false);
  await waitOnExecutionContext(ctx);
  for (const writer of writers()) {
    await runInDurableObject(writer, (instance) => void Object.assign(instance, { env }));
    while ((await writer.status()).hinted > 0) await runDurableObjectAlarm(writer);
    expect((await writer.status()).lost.dropped).toBe(0);
  }
  await vi.waitFor(() => owner().flush(accountId), { timeout: 20_000, interval: 100 });

  const rows = await readEntries(accountId);
  const entries = rows.filter((row) => row.admitted);
  expect(admitted.size + denied + failed).toBe(requests);
  expect(entries.every(({ count }) => count === 1)).toBe(true);
  expect(new Set(entries.map(({ id }) => id))).toEqual(admitted);
  const counted = rows.reduce((sum, { count }) => sum + Number(count), 0);
  expect(counted).toBe(admitted.size + denied);
  const usage = await readUsage(await openSnapshot(readingLog(accountId)), { window: "24h" });
  expect(usage.totalRequests.value).toBe(counted);
  expect(usage.byClass).toMatchObject({ "2xx": admitted.size, "429": denied });
  expect(await sumTotals(accountId)).toEqual({ hours: counted, days: counted });
  expect(maxWaiting).toBe(1);
  expect(lostResponses).toBeGreaterThan(inject("isLong") ? 5 : 1);
  expect(denied).toBeGreaterThan(inject("isLong") ? 500 : 100);
}, 180_000);
