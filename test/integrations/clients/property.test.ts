import { afterAll, describe, expect, it } from "vitest";
import { pick, type Random, randomFrom } from "../../../scripts/seed-random.ts";
import { stopAll } from "../services.ts";
import { startFakeWorker } from "./fake-worker.ts";
import { type Behind, clients, proxies, removeGoProgram, startClient } from "./services.ts";

// One property of all clients, of the agent and of the recipes, however the Worker behaves. No request whose credential was not admitted reaches a handler with
// an identity. None without an identity reaches it, unless the options say so.

afterAll(async () => {
  await stopAll();
  await removeGoProgram();
});

/** What happens to the first word of a key (fake-worker.ts). Only those of `admitted` are ever admitted. */
const admitted = ["good", "late", "once"];
const kinds = [...admitted, "busy", "moved", "rejects", "empty", "no", "half", "reset", "page", "denied", "foreign"];
const options = { missing: "pass", unknown: "pass", preflight: "pass", skip: ["/health"] };
/** The recipes let preflights through by a rule of their own. */
const mayBeNobody = (request: Sent) =>
  request.path === "/health" ||
  request.kind === "none" ||
  request.kind === "foreign" ||
  (request.method === "OPTIONS" && request.kind === "none");

interface Sent {
  kind: string;
  token: string;
  method: string;
  path: string;
  headers: Record<string, string>;
}

let made = 0;
function requestOf(random: Random): Sent {
  const kind = pick(random, [...kinds, "none"]);
  const token = `${kind}-${made++}`;
  const form = pick(random, ["Bearer ", "bearer "]);
  const credential: Record<string, string> =
    kind === "none" ? {} : random() < 0.7 ? { Authorization: `${form}${token}` } : { "X-API-Key": token };
  const forged = random() < 0.3 ? { "X-Verified-Account": "acc_forged", "X-Verified-Key": "key_forged" } : {};
  const method = pick(random, ["GET", "POST", "OPTIONS", "DELETE"]);
  const preflight = method === "OPTIONS" && random() < 0.5 ? { Origin: "https://app.example", "Access-Control-Request-Method": "PUT" } : {};
  return {
    kind,
    token,
    method,
    path: pick(random, ["/orders", "/health", "/orders/7?health=/health"]),
    headers: { ...credential, ...forged, ...preflight },
  };
}

/** Sends requests, eight at once. Returns those that broke the property, and how many ran. */
async function sendAll({ url }: Behind, requests: readonly Sent[], isThere: boolean): Promise<{ faults: string[]; ran: number }> {
  const faults: string[] = [];
  const left = [...requests];
  let ran = 0;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let each = left.pop(); each; each = left.pop()) {
        const response = await fetch(url + each.path, { method: each.method, headers: each.headers, redirect: "manual" }).catch(() => null);
        const text = (await response?.text().catch(() => "")) ?? "";
        const seen = /"account":\s*"([^"]+)"/.exec(text)?.[1];
        if (response?.status !== 200 || seen === undefined) continue;
        ran++;
        const isOwn = isThere && admitted.includes(each.kind) && seen === `acc_${each.token}`;
        if (!isOwn && !(seen === "nobody" && mayBeNobody(each))) faults.push(`${JSON.stringify(each)} was ${seen}`);
      }
    }),
  );
  return { faults, ran };
}

describe.each([...clients, ...proxies])("With %s, however the Worker behaves,", (name) => {
  it("nobody runs whose credential was not admitted, and one slow key changes nothing for others", { timeout: 180_000 }, async () => {
    const worker = await startFakeWorker();
    const service = await startClient(name, "known", { OVERVIEW_URL: worker.url, OPTIONS: JSON.stringify(options) });
    const random = randomFrom(60);
    const some = (count: number) =>
      Array.from({ length: count }, () => {
        const request = requestOf(random);
        if (request.kind === "denied") worker.denials.set(request.token, { status: 401, code: "revoked_key" });
        return request;
      });
    const first = await sendAll(service, some(300), true);
    expect(first.faults).toEqual([]);
    expect(first.ran).toBeGreaterThan(30);

    // Requests with keys whose calls never end, and in the middle of them requests of another customer.
    await (await fetch(`${service.url}/orders`, { headers: { Authorization: "Bearer good-other" } })).text();
    const slow = Array.from({ length: 48 }, (_, at) =>
      fetch(`${service.url}/orders`, { headers: { Authorization: `Bearer slow-${at % 3}` } }),
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    const took: number[] = [];
    for (let n = 0; n < 20; n++) {
      const startedAt = performance.now();
      const response = await fetch(`${service.url}/orders`, { headers: { Authorization: "Bearer good-other" } });
      expect([response.status, /acc_good-other/.test(await response.text())]).toEqual([200, true]);
      took.push(performance.now() - startedAt);
    }
    expect(took.toSorted((one, other) => one - other)[10]).toBeLessThan(300);
    for (const each of await Promise.all(slow)) expect(each.status).toBe(503);

    worker.hang();
    expect((await sendAll(service, some(24), false)).faults).toEqual([]);
    await worker.stop();
    expect((await sendAll(service, some(100), false)).faults).toEqual([]);
    await worker.start();
    for (let waited = 0; waited < 10_000; waited += 250) {
      const response = await fetch(`${service.url}/orders`, { headers: { Authorization: "Bearer good-again" } });
      if (/acc_good-again/.test(await response.text())) break;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    const last = await sendAll(service, some(100), true);
    expect(last.faults).toEqual([]);
    expect(last.ran).toBeGreaterThan(10);
    await service.stop();
    await worker.stop();
  });
});
