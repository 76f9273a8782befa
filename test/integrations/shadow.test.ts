import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { nodeHttp, Verifier } from "../../integrations/node/index.js";
import { root } from "../node/project.ts";
import { useWorker } from "./services.ts";

// A team puts the middleware in front of an API that has customers: it first only looks, then enforces for some accounts.

const { worker, operator } = useWorker();
const stops: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(stops.map((stop) => stop())));

interface Seen extends IncomingMessage {
  verified: { account: { id: string } } | null;
}

/** Starts an API in shadow mode. The team's own check says what the header `X-Own` says. */
async function startApi(options: object) {
  const verifier = new Verifier({
    url: `http://localhost:${worker.port}`,
    token: await operator.makeToken("verify"),
    logger: { error: () => {} },
  });
  const compare = ({ headers }: IncomingMessage) => headers["x-own"] !== "no";
  const handler = (req: Seen, res: ServerResponse) => res.end(req.verified?.account.id ?? "nobody");
  const server = createServer(nodeHttp(verifier, handler as never, { mode: "shadow", compare, ...options } as never)).listen(
    0,
    "127.0.0.1",
  );
  await once(server, "listening");
  stops.push(async () => {
    server.close();
    server.closeAllConnections();
    await verifier.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (key: string, own: "yes" | "no" = "yes", path = "/orders/7") => {
    const response = await fetch(url + path, { headers: { Authorization: `Bearer ${key}`, "X-Own": own } });
    return { status: response.status, limit: response.headers.get("RateLimit"), body: await response.text() };
  };
  return { verifier, ask };
}

const command = async (...args: string[]) =>
  (
    await promisify(execFile)("npm", ["run", "--silent", "operator", "--", ...args, "--remote", `http://localhost:${worker.port}`], {
      cwd: root,
      env: { ...process.env, OPERATOR_TOKEN: operator.token },
    })
  ).stdout;

describe("Shadow mode", () => {
  it("of 10,000 requests with 37 planted disagreements, blocks none and lists exactly 37", { timeout: 300_000 }, async () => {
    const { verifier, ask } = await startApi({});
    const accounts = await Promise.all(Array.from({ length: 4 }, () => operator.makeAccount({ limit: 5000 })));
    const revoked = await operator.makeAccount({ limit: 5000 });
    await operator.call("DELETE", `/keys/${revoked.keyId}`);
    const requests: [key: string, own: "yes" | "no"][] = [
      // The team's own check knows 20 keys that nobody has imported, and one that was revoked here alone.
      ...Array.from({ length: 20 }, (_, at) => [`legacy_${at}`, "yes"] as [string, "yes"]),
      ...Array.from({ length: 10 }, () => [revoked.key, "yes"] as [string, "yes"]),
      ...accounts.slice(0, 1).flatMap(({ key }) => Array.from({ length: 7 }, () => [key, "no"] as [string, "no"])),
      // Both deny these.
      ...Array.from({ length: 15 }, (_, at) => [`made_up_${at}`, "no"] as [string, "no"]),
    ];
    while (requests.length < 10_000) requests.push([accounts[requests.length % 4]?.key ?? "", "yes"]);
    requests.sort(() => Math.random() - 0.5);
    const results: Awaited<ReturnType<typeof ask>>[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let next = requests.pop(); next; next = requests.pop()) {
          results.push(await ask(...next));
          // The requests do not wait for their decisions, so their rate is that of an API with customers.
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      }),
    );
    expect(results.filter(({ status, limit, body }) => status !== 200 || limit !== null || body !== "nobody")).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await verifier.flush();
    const report = await operator.call("GET", "/shadow");
    // A decision that the service could not make in time is no difference.
    const sumOf = (some: { count: number }[]) => some.reduce((sum, { count }) => sum + count, 0);
    expect([report.requests, report.differences, report.denials]).toEqual([10_000, 37, 45]);
    const differing = report.findings.filter(({ differs }: { differs: boolean }) => differs);
    expect(sumOf(differing)).toBe(37);
    expect(differing.filter(({ credential }: { credential: string | null }) => credential !== null)).toHaveLength(20);
    expect(differing.find(({ code }: { code: string }) => code === "revoked_key")).toMatchObject({
      count: 10,
      account: revoked.id,
      key: revoked.keyId,
    });
    expect(await revoked.admitted()).toEqual([]);
    const printed = await command("shadow", "report");
    expect(printed).toContain("10,000 requests. The service would have denied 45.");
    await command("shadow", "clear");
    expect((await operator.call("GET", "/shadow")).requests).toBe(0);
  });

  it("enforces for the accounts that the team names, and for a share of all others", async () => {
    const [named, other] = await Promise.all([operator.makeAccount({ limit: 100 }), operator.makeAccount({ limit: 100 })]);
    const some = await startApi({ enforce: { accounts: [named.id] } });
    expect(await some.ask(named.key)).toMatchObject({ status: 200, body: named.id, limit: expect.stringContaining("hour") });
    expect(await some.ask(other.key)).toEqual({ status: 200, body: "nobody", limit: null });
    for (const { keyId } of [named, other]) await operator.call("DELETE", `/keys/${keyId}`);
    expect([(await some.ask(named.key)).status, (await some.ask(other.key)).status, (await some.ask("made up")).status]).toEqual([
      401, 200, 200,
    ]);
    const all = await startApi({ enforce: { share: 1 } });
    expect([(await all.ask(other.key)).status, (await all.ask("made up")).status]).toEqual([401, 401]);
    const none = await startApi({ enforce: { share: 0 } });
    expect([(await none.ask(other.key)).status, (await none.ask("made up")).status]).toEqual([200, 200]);
  });

  it("runs every request although a function of the team fails, and keeps the key out of the path that it reports", async () => {
    const fails = await startApi({
      skip: () => {
        throw new Error("broken");
      },
      compare: () => {
        throw new Error("broken, too");
      },
    });
    expect(await fails.ask("one")).toMatchObject({ status: 200, body: "nobody" });
    const enforcing = await startApi({
      enforce: { share: 1 },
      skip: () => {
        throw new Error("broken");
      },
    });
    expect(await enforcing.ask("one")).toMatchObject({ status: 200, body: "nobody" });
    const plain = await startApi({});
    expect((await plain.ask("secret_in_a_path", "yes", "/keys/secret_in_a_path")).status).toBe(200);
    // The requests above do not wait for their decisions, so their findings may arrive at any time.
    const findingsOfPath = async () => {
      await plain.verifier.flush();
      const { findings } = await operator.call("GET", "/shadow");
      return findings.filter(({ request }: { request: string }) => request.startsWith("GET /keys/"));
    };
    await expect.poll(findingsOfPath, { timeout: 10_000 }).toMatchObject([{ code: "invalid_key", request: "GET /keys/***" }]);
  });

  it("runs every request, at once, while the Worker does not respond", async () => {
    const slow = createServer(() => {}).listen(0, "127.0.0.1");
    await once(slow, "listening");
    stops.push(async () => {
      slow.close();
      slow.closeAllConnections();
    });
    const verifier = new Verifier({
      url: `http://127.0.0.1:${(slow.address() as AddressInfo).port}`,
      token: "svc_test",
      logger: { error: () => {} },
    });
    const server = createServer(
      nodeHttp(verifier, ((_: Seen, res: ServerResponse) => res.end("ran")) as never, { mode: "shadow" } as never),
    );
    await once(server.listen(0, "127.0.0.1"), "listening");
    stops.push(async () => void server.close());
    const startedAt = performance.now();
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
      headers: { Authorization: "Bearer one" },
    });
    expect([response.status, await response.text()]).toEqual([200, "ran"]);
    expect(performance.now() - startedAt).toBeLessThan(500);
  });
});
