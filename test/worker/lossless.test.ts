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
import { operatorOn } from "../../src/accounts/actor.ts";
import type { Entry } from "../../src/activity/entry.ts";
import type { AdmissionRequest } from "../../src/admission/admission.ts";
import { createApp } from "../../src/app.ts";
import { readUsage } from "../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../src/usage/refresh-roll-ups.ts";
import { db, makeKey, makeTenant } from "./client.ts";

// Requests over twenty keys, while D1 fails for most of the time and loses every third of its answers, guards are killed and put to
// sleep: ten thousand and a minute in the long form.

const { requests, roundMs, outage, smallLimit } = inject("isLong")
  ? { requests: 10_000, roundMs: 800, outage: { from: 8_000, to: 68_000 }, smallLimit: 200 }
  : { requests: 2000, roundMs: 500, outage: { from: 2_500, to: 6_500 }, smallLimit: 20 };
const atOnce = 100;

it("Every admitted request has exactly one entry and every refusal is counted, whatever fails meanwhile", async () => {
  const { accountId } = await makeTenant();
  const keys = await Promise.all(
    Array.from({ length: 20 }, (_, index) => makeKey(accountId, { hourlyLimit: index < 15 ? 5000 : smallLimit })),
  );
  const startedAt = Date.now();
  const isDown = () => Date.now() >= startedAt + outage.from && Date.now() < startedAt + outage.to;
  let [batches, answersLost] = [0, 0];
  const failing = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]) => {
        if (isDown()) throw new Error("D1_ERROR: Network connection lost");
        const answer = member.apply(target, given);
        if (name !== "batch" || ++batches % 3 > 0) return answer;
        // It was written, and whoever wrote it cannot know: the same comes again.
        return answer.then(() => {
          answersLost++;
          throw new Error("D1_ERROR: Network connection lost");
        });
      };
    },
  });
  let journalled = 0;
  const guards = new Proxy(env.KEY_GUARD, {
    get: (target, name) => {
      if (name !== "getByName") return Reflect.get(target, name);
      return (id: string) => {
        const guard = target.getByName(id);
        return {
          admit: (request: AdmissionRequest) => guard.admit(request),
          journal: async (entries: Entry[]) => {
            await guard.journal(entries);
            journalled += entries.length;
          },
        };
      };
    },
  });
  const ctx = createExecutionContext();
  const app = createApp({ isLocal: true });

  const admitted = new Set<string>();
  let refused = 0;
  let unanswered = 0;
  const ask = async (index: number) => {
    const init = { headers: { Authorization: `Bearer ${keys[index % keys.length]?.key}` } };
    const { status, headers } = await app.fetch(
      new Request("http://localhost/api/v1/me", init),
      { ...env, DB: failing, KEY_GUARD: guards },
      ctx,
    );
    if (status === 200) admitted.add(headers.get("X-Request-Id") ?? "");
    else if (status === 429) refused++;
    else unanswered++;
  };
  for (let from = 0; from < requests; from += atOnce) {
    const round = from / atOnce;
    // Guards that were killed since the last round have forgotten that their D1 is the failing one.
    for (const { keyId } of keys)
      await runInDurableObject(env.KEY_GUARD.getByName(keyId), (guard) => void Object.assign(guard, { env: { ...env, DB: failing } }));
    const asked = Array.from({ length: atOnce }, (_, index) => ask(from + index));
    if (round % 13 === 12) await abortAllDurableObjects();
    await Promise.all(asked);
    await new Promise((resolve) => setTimeout(resolve, Math.max(20, startedAt + (round + 1) * roundMs - Date.now())));
    if (round % 17 === 16)
      await Promise.all(keys.slice(0, 5).map(({ keyId }) => evictDurableObject(env.KEY_GUARD.getByName(keyId)).catch(() => {})));
  }
  expect(isDown()).toBe(false);
  await waitOnExecutionContext(ctx);
  for (const { keyId } of keys) {
    const guard = env.KEY_GUARD.getByName(keyId);
    const left = () => runInDurableObject(guard, (_, state) => [...state.storage.sql.exec("SELECT id FROM journal")].length);
    while ((await left()) > 0) await runDurableObjectAlarm(guard);
  }

  const { results } = await env.DB.prepare("SELECT id, admitted, count FROM activity WHERE account_id = ?")
    .bind(accountId)
    .all<{ id: string; admitted: number; count: number }>();
  const entries = results.filter((entry) => entry.admitted);
  expect(admitted.size + refused + unanswered).toBe(requests);
  expect(entries.every(({ count }) => count === 1)).toBe(true);
  expect(new Set(entries.map(({ id }) => id))).toEqual(admitted);
  const counted = results.reduce((sum, { count }) => sum + count, 0);
  expect(counted).toBe(admitted.size + refused);
  const usage = await readUsage(await refreshRollUps({ db, now: Date.now(), actor: operatorOn(accountId) }), { window: "24h" });
  expect(usage.totalRequests.value).toBe(counted);
  expect(usage.byClass).toMatchObject({ "2xx": admitted.size, "429": refused });
  const {
    results: [rolled],
  } = await env.DB.prepare(
    "SELECT (SELECT sum(requests) FROM usage_hours WHERE account_id = ?1) AS hours, (SELECT sum(requests) FROM usage_days WHERE account_id = ?1) AS days",
  )
    .bind(accountId)
    .all();
  expect(rolled).toEqual({ hours: counted, days: counted });
  expect(journalled).toBeGreaterThan(0);
  expect(answersLost).toBeGreaterThan(inject("isLong") ? 5 : 1);
  expect(refused).toBeGreaterThan(inject("isLong") ? 500 : 100);
}, 180_000);
