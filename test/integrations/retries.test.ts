import { expect, it, vi } from "vitest";
import { useWorker } from "./services.ts";

// Many connections ask about requests with the same ids, as a middleware does whose answers get lost.

const [calls, connections] = [1000, 32];

const { worker, operator } = useWorker();

/** Calls `one` with 0, 1, 2 and so on, from 32 connections at once. */
async function inParallel(count: number, one: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (next < count) await one(next++);
    }),
  );
}

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
