import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { operatorOf } from "./operator.ts";

// Many connections ask about requests with the same ids, as a middleware does whose answers get lost.

const [calls, connections] = [1000, 32];

let worker: RunningWorker;
let operator: ReturnType<typeof operatorOf>;

beforeAll(async () => {
  worker = await startWorker();
  operator = operatorOf(worker);
});
afterAll(() => worker?.stop());

/** Calls `one` with 0, 1, 2 and so on, from 32 connections at once. */
async function inParallel(count: number, one: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (next < count) await one(next++);
    }),
  );
}

it("A request_id that comes 1,000 times within ten seconds counts once, and none is allowed after the key is revoked", async () => {
  const token = await operator.makeToken("verify");
  const account = await operator.makeAccount({ limit: 5000 });
  const body = { key: account.key, method: "POST", path: "/orders", request_id: "one-and-the-same" };
  const verify = () => operator.call("POST", "/verify", body, token);
  await verify();
  const sendAll = async () => {
    const answers: { allowed: boolean; rate_limits: [{ used: number }] }[] = [];
    await inParallel(calls / 2, async () => void answers.push(await verify()));
    return answers;
  };
  const before = await sendAll();
  expect(before.map(({ allowed, rate_limits: [hour] }) => [allowed, hour.used])).toEqual(Array(calls / 2).fill([true, 1]));
  // The key is revoked while more calls come.
  const during = sendAll();
  await operator.call("DELETE", `/keys/${account.keyId}`);
  const after = await sendAll();
  await during;
  expect(after.filter(({ allowed }) => allowed)).toEqual([]);
  // The entries of all calls have arrived when the usage no longer changes.
  const usageOf = async () => (await account.usage()).total_requests.value;
  await vi.waitUntil(
    async () => {
      const total = await usageOf();
      await new Promise((resolve) => setTimeout(resolve, 2000));
      return total > 0 && total === (await usageOf());
    },
    { timeout: 30_000, interval: 100 },
  );
  expect(await account.admitted()).toHaveLength(1);
});

it("If half of the answers are thrown away and their requests are sent again, the count equals the number of distinct ids", async () => {
  const token = await operator.makeToken("verify");
  const account = await operator.makeAccount({ limit: 5000 });
  const send = (index: number, signal?: AbortSignal) =>
    fetch(`http://localhost:${worker.port}/team/v1/verify`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ key: account.key, method: "POST", path: "/orders", request_id: `request-${index}` }),
      ...(signal && { signal }),
    });
  const hourOf = async (response: Response) =>
    ((await response.json()) as { rate_limits: [{ used: number; resets_at: string }] }).rate_limits[0];
  const first = await hourOf(await send(0));
  await inParallel(calls, async (index) => {
    if (index % 2 === 0) {
      // The connection is closed at a random moment: before the request has arrived, while it is decided, or after its answer.
      const aborting = new AbortController();
      setTimeout(() => aborting.abort(), Math.random() * 40);
      await send(index, aborting.signal)
        .then((response) => response.text())
        .catch(() => null);
    }
    const response = await send(index);
    expect(((await response.json()) as { allowed: boolean }).allowed).toBe(true);
  });
  const last = await hourOf(await send(calls));
  // If a new hour has begun meanwhile, the guard counts from zero.
  if (last.resets_at === first.resets_at) expect(last.used).toBe(calls + 1);
  const usage = await vi.waitUntil(
    async () => {
      const { total_requests: total } = await account.usage();
      return total.value >= calls + 1 ? total.value : null;
    },
    { timeout: 20_000, interval: 500 },
  );
  expect(usage).toBe(calls + 1);
});
