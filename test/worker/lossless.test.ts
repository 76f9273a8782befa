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
import { expect, inject, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { readUsage } from "../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../src/usage/refresh-roll-ups.ts";
import { makeKey, makeTenant, readingLog } from "./support/client.ts";

// Requests over twenty keys, while D1 fails for most of the time and loses every third of its responses, and guards and writers are killed and
// evicted. The long form sends ten thousand requests in a minute.

const { requests, roundMs, outage, smallLimit } = inject("isLong")
  ? { requests: 10_000, roundMs: 800, outage: { from: 8_000, to: 68_000 }, smallLimit: 200 }
  : { requests: 2000, roundMs: 500, outage: { from: 2_500, to: 6_500 }, smallLimit: 20 };
const atOnce = 100;

it("Every admitted request has exactly one entry and every refusal is counted, even while parts fail", async () => {
  const { accountId } = await makeTenant();
  const keys = await Promise.all(
    Array.from({ length: 20 }, (_, index) => makeKey(accountId, { hourlyLimit: index < 15 ? 5000 : smallLimit })),
  );
  const startedAt = Date.now();
  const isDown = () => Date.now() >= startedAt + outage.from && Date.now() < startedAt + outage.to;
  let [batches, answersLost] = [0, 0];
  const failing = new Proxy(env.ACTIVITY_0, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]) => {
        if (isDown()) throw new Error("D1_ERROR: Network connection lost");
        const answer = member.apply(target, given);
        if (name !== "batch" || ++batches % 3 > 0) return answer;
        // It was written, and its sender cannot know: the same comes again.
        return answer.then(() => {
          answersLost++;
          throw new Error("D1_ERROR: Network connection lost");
        });
      };
    },
  });
  let maxJournalled = 0;
  const writers = () => [0, 1, 2, 3].map((number) => env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${number}`));
  const ctx = createExecutionContext();
  const app = createApp({ isLocal: true });

  const admitted = new Set<string>();
  let refused = 0;
  let unanswered = 0;
  const ask = async (index: number) => {
    const init = { headers: { Authorization: `Bearer ${keys[index % keys.length]?.key}` } };
    const { status, headers } = await app.fetch(new Request("http://localhost/api/v1/me", init), { ...env, ACTIVITY_0: failing }, ctx);
    if (status === 200) admitted.add(headers.get("X-Request-Id") ?? "");
    else if (status === 429) refused++;
    else unanswered++;
  };
  for (let from = 0; from < requests; from += atOnce) {
    const round = from / atOnce;
    // Writers that were killed since the last round have forgotten that their D1 is the failing one.
    for (const writer of writers()) {
      await runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0: failing } }));
      maxJournalled = Math.max(maxJournalled, (await writer.status()).journalled);
    }
    const asked = Array.from({ length: atOnce }, (_, index) => ask(from + index));
    if (round % 13 === 12) await abortAllDurableObjects();
    await Promise.all(asked);
    await new Promise((resolve) => setTimeout(resolve, Math.max(20, startedAt + (round + 1) * roundMs - Date.now())));
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
    while ((await writer.status()).journalled > 0) await runDurableObjectAlarm(writer);
    expect((await writer.status()).dropped).toBe(0);
  }

  const { results } = await env.ACTIVITY_0.prepare("SELECT id, admitted, count FROM activity WHERE account_id = ?")
    .bind(accountId)
    .all<{ id: string; admitted: number; count: number }>();
  const entries = results.filter((entry) => entry.admitted);
  expect(admitted.size + refused + unanswered).toBe(requests);
  expect(entries.every(({ count }) => count === 1)).toBe(true);
  expect(new Set(entries.map(({ id }) => id))).toEqual(admitted);
  const counted = results.reduce((sum, { count }) => sum + count, 0);
  expect(counted).toBe(admitted.size + refused);
  const usage = await readUsage(await refreshRollUps(readingLog(accountId)), { window: "24h" });
  expect(usage.totalRequests.value).toBe(counted);
  expect(usage.byClass).toMatchObject({ "2xx": admitted.size, "429": refused });
  const {
    results: [rolled],
  } = await env.ACTIVITY_0.prepare(
    "SELECT (SELECT sum(requests) FROM usage_slices WHERE account_id = ?1) AS slices, (SELECT sum(requests) FROM usage_hours WHERE account_id = ?1) AS hours, (SELECT sum(requests) FROM usage_days WHERE account_id = ?1) AS days",
  )
    .bind(accountId)
    .all();
  expect(rolled).toEqual({ slices: counted, hours: counted, days: counted });
  expect(maxJournalled).toBeGreaterThan(0);
  expect(answersLost).toBeGreaterThan(inject("isLong") ? 5 : 1);
  expect(refused).toBeGreaterThan(inject("isLong") ? 500 : 100);
}, 180_000);
