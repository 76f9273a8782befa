import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeHttp, Verifier } from "../../../integrations/node/index.js";
// @ts-expect-error: the packages have no types for their own parts
import { Known } from "../../../integrations/node/known.js";
// @ts-expect-error: as above
import { Leases } from "../../../integrations/node/leases.js";
import { type FakeWorker, startFakeWorker } from "./fake-worker.ts";

// What only the client for Node can get wrong, in this process.

let worker: FakeWorker;
const stops: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  worker = await startFakeWorker();
});
afterAll(async () => {
  for (const stop of stops) await stop();
  await worker.stop();
});

const silent = { error: () => {} };
const newVerifier = (more: object = {}) => {
  const verifier = new Verifier({ url: worker.url, token: "svc_test", logger: silent, ...more } as never);
  stops.push(() => verifier.close());
  return verifier;
};

async function serve(verifier: Verifier, handler: (req: IncomingMessage, res: ServerResponse) => void, options: object) {
  const server = createServer(nodeHttp(verifier, handler as never, options as never)).listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(async () => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
const broken = () => {
  throw new Error("broken");
};

describe("A function of the team that fails", () => {
  it.each([
    ["skip", {}, 500],
    ["clientIp", {}, 200],
    ["route", {}, 200],
    ["onDenied", {}, 500],
    ["skip", { mode: "shadow" }, 200],
    ["clientIp", { mode: "shadow" }, 200],
    ["route", { mode: "shadow" }, 200],
  ])("as %s with %j neither ends the process nor keeps the client waiting", async (name, options, status) => {
    const url = await serve(newVerifier(), (_, res) => res.end("ran"), { ...options, [name]: broken });
    worker.denials.set("denied", { status: 401, code: "invalid_key" });
    const key = name === "onDenied" ? "denied" : "one";
    const response = await fetch(url, { headers: { Authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(5000) });
    expect([response.status, await response.text()]).toEqual([status, status === 200 ? "ran" : ""]);
  });
});

it("A client of HTTP/2 that goes away during the decision does not run the handler, and leaves nothing", async () => {
  const verifier = newVerifier();
  let ran = 0;
  const handler = nodeHttp(verifier, ((_: IncomingMessage, res: ServerResponse) => {
    ran++;
    res.end();
  }) as never);
  const server = createHttp2Server(handler as never).listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (let n = 0; n < 20; n++) {
    const stream = session.request({ ":path": "/", authorization: `Bearer late-${n}` });
    stream.on("error", () => {});
    setTimeout(() => stream.close(8), 100);
  }
  await sleep(1500);
  await verifier.flush();
  expect(ran).toBe(0);
  expect(worker.reports.filter(({ receipt, status }) => receipt.startsWith("late-") && status === 499)).toHaveLength(20);
  session.close();
  server.close();
});

it("A flush ends although new reports and findings come all the time, and a report that has to wait is sent again in the meantime", async () => {
  const verifier = newVerifier();
  const receipt = (n: number) => `steady ${n}`;
  let [sent, isOver] = [0, false];
  const sending = (async () => {
    while (!isOver) {
      verifier.report({ receipt: receipt(sent++), status: 200, durationMs: 1 });
      await sleep(1);
    }
  })();
  await sleep(200);
  const startedAt = performance.now();
  await verifier.flush();
  await verifier.flush();
  expect(performance.now() - startedAt).toBeLessThan(2000);
  isOver = true;
  await sending;
  await verifier.flush();
  expect(new Set(worker.reports.filter(({ receipt: each }) => each.startsWith("steady")).map((each) => each.receipt)).size).toBe(sent);
  expect(verifier.stats()).toMatchObject({ waiting: 0, dropped: 0 });
});

const answer = {
  allowed: true,
  status: 200,
  code: null,
  account: { id: "acc_1", external_id: null, name: "Acme", metadata: {} },
  key: { id: "key_1", external_id: null, name: "Key", scopes: [], metadata: {}, expires_at: null },
  rate_limits: [],
  headers: {},
};

it("A lease that one place has got enforces nothing in another place, for which the service has not said so", () => {
  const leases = new Leases();
  const now = { mono: 1000, wall: 1_000_000 };
  const named = { accounts: ["acc_1"] };
  const lease = { lease: "lse_1", units: 10, for_ms: 2000, is_urgent: false, allowed_ips: [], order: 1 };
  leases.take("id", { at: now, want: 2, cost: 1, shadow: named }, { ...answer, ...lease, enforced: true }, now);
  expect(leases.admit("id", { shadow: named }, now)).toMatchObject({ allowed: true, enforced: true });
  expect(leases.admit("id", { shadow: { accounts: ["acc_2"] }, now }, now)).toBeNull();
  expect(leases.admit("id", {}, now)).toMatchObject({ allowed: true });
});

it("A process that admits by leases knows its customers when the Worker goes away", () => {
  const known = new Known();
  known.note("id", "192.0.2.1", answer, JSON.stringify(answer));
  expect(known.pass("id", "192.0.2.2", {})).toBeNull();
  known.touch("id", "192.0.2.2");
  known.touch("another", "192.0.2.2");
  expect([known.pass("id", "192.0.2.2", {}), known.pass("another", "192.0.2.2", {})]).toMatchObject([{ key: { id: "key_1" } }, null]);
});
