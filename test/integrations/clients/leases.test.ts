import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { type Service, useWorker } from "../services.ts";
import { startClient } from "./services.ts";

// Processes with the client for Node that hold leases of a started Worker.

const { worker, operator } = useWorker();

const startProcesses = async (count: number) => {
  const token = await operator.makeToken("verify");
  const env = { OVERVIEW_URL: `http://localhost:${worker.port}`, SERVICE_TOKEN: token };
  return Promise.all(Array.from({ length: count }, () => startClient("node:http", "deny", env)));
};

const statusOf = ({ url }: Service, key: string): Promise<number> =>
  fetch(`${url}/orders`, { headers: { Authorization: `Bearer ${key}` } }).then(
    async (response) => {
      await response.arrayBuffer();
      return response.status;
    },
    () => 0,
  );

// biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
const statsOf = async ({ url }: Service): Promise<any> => (await fetch(`${url}/_stats`)).json();

/** Sends requests at an even pace to the processes in turn. Calls `at` before each request with its number. */
async function sendEvenly(
  processes: Service[],
  { count, perSecond, keyOf, at = () => {} }: { count: number; perSecond: number; keyOf: (n: number) => string; at?: (n: number) => void },
): Promise<{ startedAt: number; status: number }[]> {
  const sent: Promise<{ startedAt: number; status: number }>[] = [];
  const begin = performance.now();
  for (let n = 0; n < count; n++) {
    const late = begin + (n * 1000) / perSecond - performance.now();
    if (late > 1) await sleep(late);
    at(n);
    const startedAt = performance.now();
    sent.push(statusOf(processes[n % processes.length] as Service, keyOf(n)).then((status) => ({ startedAt, status })));
  }
  return Promise.all(sent);
}

const admittedIn = (results: { status: number }[]) => results.filter(({ status }) => status === 200).length;

describe("Processes with leases", () => {
  it("decide most requests by themselves, and each of them is in the log once", async () => {
    const account = await operator.makeAccount({ limit: 5000 });
    const [process] = (await startProcesses(1)) as unknown as [Service];
    const results = await sendEvenly([process], { count: 1200, perSecond: 150, keyOf: () => account.key });
    expect(admittedIn(results)).toBe(1200);
    const { byLease, decisions } = await statsOf(process);
    // The start of the process has sent one request, too.
    expect([decisions, byLease > 1080]).toEqual([1201, true]);
    await vi.waitUntil(async () => (await account.usage()).total_requests.value === 1200, { timeout: 15_000, interval: 300 });
    // What the process did not use has come back.
    await process.stop();
    const { policies } = await fetch(`http://localhost:${worker.port}/api/v1/rate-limit`, {
      headers: { Authorization: `Bearer ${account.key}` },
    }).then((response) => response.json() as Promise<{ policies: { used: number }[] }>);
    expect(policies[0]?.used).toBe(1200);
  });

  it("admit no request over the limit, and at least 4,700 of 5,000 if two of four are killed half way", async () => {
    // The limit of the hour must not start again meanwhile.
    const left = 3_600_000 - (Date.now() % 3_600_000);
    if (left < 60_000) await new Promise((resolve) => setTimeout(resolve, left));
    const account = await operator.makeAccount({ limit: 5000 });
    const processes = await startProcesses(4);
    // A Worker that has just started needs seconds for its first decisions, and each of them that comes too late is a unit lost.
    const { key: other } = await operator.makeAccount({ limit: 5000 });
    for (const each of processes) await vi.waitUntil(async () => (await statusOf(each, other)) === 200, { timeout: 20_000 });
    const running = [...processes];
    const results = await sendEvenly(running, {
      count: 7000,
      // A pace that two cores keep, so that no decision is refused for want of time.
      perSecond: 250,
      keyOf: () => account.key,
      at: (n) => {
        if (n === 2500) for (const each of running.splice(0, 2)) void each.kill();
      },
    });
    const admitted = admittedIn(results);
    expect(admitted).toBeLessThanOrEqual(5000);
    expect(admitted).toBeGreaterThanOrEqual(4700);
  });

  it("admit no request that begins after a revocation has returned, which takes less than three seconds", async () => {
    const processes = await startProcesses(4);
    const accounts = await Promise.all(Array.from({ length: 12 }, () => operator.makeAccount({ limit: 5000 })));
    const revoked: { at: number; took: number }[] = [];
    const revoking: Promise<void>[] = [];
    const sent: { key: number; startedAt: number; status: number }[] = [];
    let isOver = false;
    const load = Promise.all(
      Array.from({ length: 24 }, async (_, n) => {
        for (let turn = n; !isOver; turn++) {
          const key = turn % accounts.length;
          const startedAt = performance.now();
          sent.push({ key, startedAt, status: await statusOf(processes[turn % 4] as Service, accounts[key]?.key ?? "") });
          await sleep(5);
        }
      }),
    );
    await sleep(1500);
    for (const [index, { keyId }] of accounts.entries()) {
      const startedAt = performance.now();
      revoking.push(
        operator.call("POST", `/keys/${keyId}/revoke`).then(() => {
          revoked[index] = { at: performance.now(), took: performance.now() - startedAt };
        }),
      );
      await sleep(50);
    }
    await Promise.all(revoking);
    await sleep(500);
    isOver = true;
    await load;
    const late = sent.filter(({ key, startedAt, status }) => status === 200 && startedAt > (revoked[key]?.at ?? Number.POSITIVE_INFINITY));
    expect(late).toEqual([]);
    expect(sent.filter(({ status }) => status === 200).length).toBeGreaterThan(200);
    expect(Math.max(...revoked.map(({ took }) => took))).toBeLessThan(3000);
  });
});
