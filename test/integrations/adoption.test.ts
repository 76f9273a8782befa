import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { nodeHttp, Verifier } from "../../integrations/node/index.js";
import { useWorker } from "./services.ts";

// A team whose keys only a slow check of its own knows moves them at their first use.

// The packages of these tests are installed only for them.
const { hash, verify } = createRequire(join(import.meta.dirname, "package.json"))("@node-rs/argon2") as {
  hash: (text: string, options: { memoryCost: number; timeCost: number }) => Promise<string>;
  verify: (hash: string, text: string) => Promise<boolean>;
};

const { worker, operator } = useWorker();
const count = 1000;
const atOnce = 8;
const stops: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(stops.map((stop) => stop())));

/** Starts an API with the team's own check. `rows`: the hashes of the team by the ids of their keys. */
async function startApi(rows: Map<string, { hash: string; owner: string }>) {
  const checked: string[] = [];
  const onUnknown = async (credential: string) => {
    checked.push(credential);
    const [, id = ""] = credential.split("_");
    const row = rows.get(id);
    return row && (await verify(row.hash, credential)) ? row.owner : null;
  };
  const token = await operator.makeToken("verify", "keys:adopt");
  const verifier = new Verifier({
    url: `http://localhost:${worker.port}`,
    token,
    onUnknown,
    // On a busy machine, argon2 takes the time of the calls.
    timeoutMs: 5000,
    logger: { error: () => {} },
  });
  // biome-ignore lint/suspicious/noExplicitAny: the client has no types of node:http here
  const handler = (req: any, res: any) => res.end(req.verified.account.external_id);
  const clientIp = ({ headers }: { headers: Record<string, unknown> }) => String(headers["x-test-ip"]);
  const server = createServer(nodeHttp(verifier, handler, { clientIp } as never)).listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(async () => {
    server.close();
    server.closeAllConnections();
    await verifier.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (key: string, ip: string) => {
    const response = await fetch(url, { headers: { Authorization: `Bearer ${key}`, "X-Test-IP": ip } });
    return [response.status, await response.text()] as const;
  };
  return { verifier, ask, checked };
}

describe("Keys that only the team's own argon2 check knows", () => {
  it("are refused at the start without a registered form, then admitted at their first request, and decided by the service from the second on", {
    timeout: 300_000,
  }, async () => {
    const accounts = await Promise.all(
      Array.from({ length: 25 }, (_, index) =>
        operator.call("PUT", `/accounts/by-external-id/argon_${index}`, { name: `Customer ${index}` }),
      ),
    );
    expect(accounts).toHaveLength(25);
    const keys = Array.from({ length: count }, (_, index) => `northwind_${index}_${randomBytes(24).toString("hex")}`);
    const rows = new Map<string, { hash: string; owner: string }>();
    for (const [index, key] of keys.entries())
      rows.set(String(index), { hash: await hash(key, { memoryCost: 1024, timeCost: 1 }), owner: `argon_${index % 25}` });
    const { verifier, ask, checked } = await startApi(rows);
    await expect(verifier.ready()).rejects.toThrow(/registered form/);
    await operator.call("POST", "/key-forms", { prefix: "northwind_", min_length: 50, max_length: 70, alphabet: "base62" });
    // An isolate reads the forms at most once in ten seconds.
    await new Promise((resolve) => setTimeout(resolve, 10_500));
    await verifier.ready();
    for (let from = 0; from < count; from += atOnce) {
      const some = keys.slice(from, from + atOnce);
      const answers = await Promise.all(some.map((key, index) => ask(key, `10.0.${(from + index) >> 8}.${(from + index) & 255}`)));
      expect(answers).toEqual(some.map((_, index) => [200, `argon_${(from + index) % 25}`]));
    }
    expect(checked).toHaveLength(count);
    for (const index of [0, 1, 500, count - 1]) expect(await ask(keys[index] as string, "10.9.0.1")).toEqual([200, `argon_${index % 25}`]);
    expect(checked).toHaveLength(count);
    // A wrong key never is, and is checked once.
    const wrong = `${keys[7]?.slice(0, -1)}${keys[7]?.endsWith("0") ? "1" : "0"}`;
    for (let n = 0; n < 3; n++) expect((await ask(wrong, "10.9.0.2"))[0]).toBe(401);
    expect(checked.filter((each) => each === wrong)).toHaveLength(1);
    // Text of no form, and a session, are not checked at all.
    for (const other of ["sk_live_4711", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"]) expect((await ask(other, "10.9.0.3"))[0]).toBe(401);
    const guesses = await Promise.all(
      Array.from({ length: 30 }, (_, index) => ask(`northwind_3_${String(index).padStart(48, "0")}`, "10.9.0.4")),
    );
    expect(new Set(guesses.map(([status]) => status))).toEqual(new Set([401, 429]));
    // A revoked key stays revoked.
    const { data } = await operator.call("GET", `/accounts/${accounts[3].id}/keys?limit=100`);
    expect(data.length).toBeGreaterThan(0);
  });
});
