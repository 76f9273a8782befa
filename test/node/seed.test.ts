import { expect, it } from "vitest";
import { randomFrom } from "../../scripts/seed-random.ts";
import { patchTaskCall, seedTraffic } from "../../scripts/seed-traffic.ts";
import type { Key } from "../../src/keys/key.ts";
import { timeOfId } from "../../src/lib/ids.ts";
import { dayMs, hourMs, hourStart } from "../../src/lib/time/clock.ts";

// The demo is what most people see first, so its requests must be requests that its keys can make.

const key = (id: string, hourlyLimit: number, scopes: string[]) => ({ id, hourlyLimit, scopes }) as unknown as Key;
const now = Date.parse("2026-11-27T15:20:00Z");
const all = key("key_all", 5000, ["users:read", "tasks:read", "tasks:write", "analytics:read", "keys:read"]);
const few = key("key_few", 2000, ["tasks:read"]);
const written = [
  {
    requestId: `req_${(now - 5 * hourMs).toString(16).padStart(12, "0")}${"0".repeat(20)}`,
    call: patchTaskCall,
    path: "/api/v1/tasks/tsk_1",
  },
];
const entries = seedTraffic(
  {
    random: randomFrom(1),
    accountId: "acc_1",
    clients: [
      [all, 60],
      [few, 40],
    ],
  },
  written,
  now - 10 * dayMs,
  now,
);

it("The keys of the demo make only requests that their scopes allow, and are denied only others", () => {
  const routesOf = ({ id }: Key, admitted: boolean) =>
    new Set(entries.filter((each) => each.keyId === id && each.admitted === admitted).map(({ route }) => route));
  expect([...routesOf(few, true)].toSorted()).toEqual(["/api/v1/tasks", "/api/v1/tasks/{id}"]);
  const denials = entries.filter(({ status }) => status === 403);
  expect(denials.length).toBeGreaterThan(0);
  expect(denials.every(({ keyId, problem }) => keyId === few.id && problem?.detail.includes("keys:read"))).toBe(true);
});

it("Each change in the demo has the request that made it, and each request of the demo says what was used of the limit", () => {
  expect(entries.find(({ id }) => id === written[0]?.requestId)).toMatchObject({
    method: "PATCH",
    status: 200,
    path: "/api/v1/tasks/tsk_1",
  });
  expect(entries.filter(({ method, status }) => method !== "GET" && (status ?? 0) < 300)).toHaveLength(1);
  const used = new Map<string, number>();
  for (const { id, keyId, counted, limits } of entries.toSorted((a, b) => timeOfId(a.id) - timeOfId(b.id))) {
    if (!counted) continue;
    const hour = `${keyId} ${hourStart(timeOfId(id))}`;
    used.set(hour, (used.get(hour) ?? 0) + 1);
    expect(limits?.[0]?.used).toBe(used.get(hour));
  }
});
