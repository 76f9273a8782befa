import { request as ask, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type D1Ports, type Served, serve } from "../workerd.ts";

// A proxy that makes a local D1 as slow as a deployed D1. The proxy forwards batches of SQL statements from a Worker to workerd's local D1.
// Batches run one after the other. A batch takes 3 ms, plus 0.02 ms for each row that the batch writes. The network adds 10 ms in each
// direction.

const batchMs = 3;
const rowMs = 0.02;
const usualOneWayMs = 10;

export interface SlowD1 {
  port: number;
  /**
   * Returns the share of time in which D1 was busy, from 0 to 1. The measured time starts at the previous call. Each batch has a modeled time
   * and an actual time, and the longer of the two counts.
   */
  busyShare(): number;
  /** The share of D1's time that other work uses, from 0 to 1. */
  others: number;
  isAway: boolean;
  batches: number;
  stop(): Promise<void>;
}

/** Starts the proxy that slows down D1. `target` is the port of workerd's local D1. `oneWayMs` is the network latency in each direction. */
async function startSlowD1(target: number, { oneWayMs = usualOneWayMs } = {}): Promise<SlowD1> {
  let queue = Promise.resolve();
  let [busyMs, since] = [0, performance.now()];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    await sleep(oneWayMs);
    if (slow.isAway) return void response.destroy();
    const turn = queue.then(async () => {
      const startedAt = performance.now();
      const answer = await forward(target, request.url ?? "/", request.method ?? "POST", request.headers, body);
      const rows = rowsWrittenIn(answer.body);
      const workMs = batchMs + rowMs * rows;
      const tookMs = performance.now() - startedAt;
      busyMs += Math.max(workMs, tookMs);
      await sleep(Math.max(0, workMs / (1 - slow.others) - tookMs));
      slow.batches++;
      return answer;
    });
    queue = turn.then(
      () => {},
      () => {},
    );
    const answer = await turn.catch(() => null);
    if (answer === null) return void response.destroy();
    await sleep(oneWayMs);
    response.writeHead(answer.status, answer.headers).end(answer.body);
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const slow: SlowD1 = {
    port: (server.address() as AddressInfo).port,
    busyShare() {
      const share = busyMs / (performance.now() - since);
      [busyMs, since] = [0, performance.now()];
      return share;
    },
    others: 0,
    isAway: false,
    batches: 0,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return slow;
}

/** Serves a Worker whose main database and activity database are slow, and passes it to `work` with the proxy before its activity database. */
export async function behindSlowD1<Result>(
  script: string,
  folder: string,
  options: { oneWayMs?: number },
  work: (served: Served, d1: SlowD1) => Promise<Result>,
): Promise<Result> {
  let slow: SlowD1[] = [];
  const through = async ({ main, activity }: D1Ports) => {
    slow = await Promise.all([activity, main].map((port) => startSlowD1(port, options)));
    return { main: slow[1]?.port ?? 0, activity: slow[0]?.port ?? 0 };
  };
  const served = await serve(script, folder, { through });
  try {
    return await work(served, slow[0] as SlowD1);
  } finally {
    await served.stop();
    for (const each of slow) await each.stop();
  }
}

/** Returns the number of rows that a batch wrote. The response of D1 contains the number for each statement. */
const rowsWrittenIn = (body: Buffer): number =>
  [...body.toString().matchAll(/"rows_written":(\d+)/g)].reduce((sum, [, rows]) => sum + Number(rows), 0);

const forward = (port: number, path: string, method: string, headers: object, body: Buffer) =>
  new Promise<{ status: number; headers: Record<string, string>; body: Buffer }>((resolve, reject) => {
    const sent = ask({ host: "127.0.0.1", port, path, method, headers: { ...headers, "content-length": body.length } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        const type = answer.headers["content-type"];
        resolve({ status: answer.statusCode ?? 502, headers: type ? { "content-type": type } : {}, body: Buffer.concat(chunks) });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
