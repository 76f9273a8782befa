import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../project.ts";

// What a process of the team does with its leases. The rules are those of the isolates, from the same file.

interface Now {
  mono: number;
  wall: number;
}
const at = (ms: number): Now => ({ mono: 1000 + ms, wall: 1_700_000_000_000 + ms });

/** An answer of the Worker. `used`: what the guard counts, with the request of the answer. */
const answerOf = (used: number, order: number, lease: { units: number } | null = null, more: object = {}) => ({
  allowed: true,
  status: 200,
  code: null,
  account: { id: "acc_1" },
  key: { id: "key_1", scopes: ["orders:read"], expires_at: null },
  rate_limits: [{ name: "hour", limit: 5000, used, remaining: 5000 - used, resets_at: "2099-01-01T00:00:00.000Z" }],
  headers: { "RateLimit-Policy": '"hour";q=5000;w=3600' },
  lease: lease && `lease ${order}`,
  units: lease?.units ?? 0,
  for_ms: 2000,
  is_urgent: false,
  order,
  allowed_ips: [] as string[],
  ...more,
});

// biome-ignore lint/suspicious/noExplicitAny: the client is JavaScript
type Any = any;
const { Leases }: Any = await import(join(root, "integrations/node/leases.js"));

/** Returns leases. The key "id" has one with `units`, after two requests. */
function withLease(units: number): Any {
  const leases: Any = new Leases();
  leases.take("id", { at: at(0), want: 0, cost: 1 }, answerOf(1, 1), at(1));
  leases.admit("id", {}, at(2));
  const question = leases.question("id", at(2));
  leases.take("id", { at: at(2), ...question, cost: 1 }, answerOf(2, 2, { units }), at(3));
  return leases;
}

const usedIn = (answer: Any): number => Number(answer.headers["X-RateLimit-Used"]);

it("A lease admits as many units as it has, until its end by both clocks, and only what its key may do", () => {
  const leases = withLease(4);
  expect(leases.admit("id", { cost: 5 }, at(10))).toBeNull();
  for (const cost of [0, -1000, 0.5, Number.NaN]) expect([cost, leases.admit("id", { cost }, at(10))]).toEqual([cost, null]);
  expect(leases.admit("id", { scope: "orders:write" }, at(10))).toBeNull();
  expect(leases.admit("id", { scopes: { any: ["orders:write"] } }, at(10))).toBeNull();
  expect(leases.admit("id", { request_id: "7" }, at(10))).toBeNull();
  expect(leases.admit("id", { scope: "orders:read", cost: 2 }, at(10))).toMatchObject({ allowed: true });
  // The machine has slept: one clock says that the lease is over.
  expect(leases.admit("id", {}, { mono: at(20).mono, wall: at(5000).wall })).toBeNull();
  expect(leases.admit("id", {}, { mono: at(5000).mono, wall: at(20).wall })).toBeNull();
  expect(withLease(4).admit("id", {}, at(2003))).toBeNull();
});

it("Each answer counts one more, also beside requests that the Worker decided while the lease was there", () => {
  const leases = withLease(10);
  const shown = [usedIn(leases.admit("id", {}, at(4))), usedIn(leases.admit("id", {}, at(5)))];
  // The guard counts the ten units of the lease as used, and 500 of another request.
  const beside = leases.take("id", { at: at(6), want: 0, cost: 500 }, answerOf(512, 3), at(7));
  shown.push(usedIn(beside), usedIn(leases.admit("id", {}, at(8))));
  expect(shown).toEqual([3, 4, 504, 505]);
});

it("What is left goes back once, at once near the end of a limit, and all of it when the process stops", () => {
  const leases = withLease(10);
  leases.admit("id", {}, at(4));
  expect(leases.due(at(2100))).toEqual([]);
  expect(leases.due(at(6000))).toMatchObject([{ lease: "lease 2", want: 0, back: [{ lease: "lease 2", unused: 9 }] }]);
  expect(leases.due(at(6100))).toEqual([]);
  const urgent: Any = withLease(10);
  urgent.take("id", { at: at(4), want: 0, cost: 1 }, answerOf(13, 3, { units: 5 }, { is_urgent: true }), at(5));
  expect(urgent.due(at(2100))).toHaveLength(1);
  const many: Any = new Leases();
  for (let n = 0; n < 450; n++) many.take(`id ${n}`, { at: at(0), want: 2, cost: 1 }, answerOf(1, 1, { units: 5 }), at(1));
  const sizes = [many.due(at(2), true).length, many.due(at(2), true).length, many.due(at(2), true).length, many.due(at(2), true).length];
  expect([sizes, many.isEmpty]).toEqual([[200, 200, 50, 0], true]);
});

it("Denied credentials take no room, and a key with units is kept before one without", () => {
  const leases = withLease(10);
  for (let n = 0; n < 100; n++)
    leases.take(`denied ${n}`, { at: at(0), want: 0 }, { allowed: false, status: 401, code: "invalid_key" }, at(1));
  for (let n = 0; n < 12_000; n++) leases.take(`other ${n}`, { at: at(0), want: 0, cost: 1 }, answerOf(1, 1), at(1));
  expect(leases.admit("id", {}, at(20))).toMatchObject({ allowed: true });
});

it("A denial of the key's state ends its leases, and a key with addresses has none", () => {
  const leases = withLease(10);
  leases.take("id", { at: at(4), want: 0 }, { allowed: false, status: 403, code: "insufficient_scope" }, at(5));
  expect(leases.admit("id", {}, at(6))).not.toBeNull();
  leases.take("id", { at: at(6), want: 0 }, { allowed: false, status: 401, code: "revoked_key" }, at(7));
  expect(leases.admit("id", {}, at(8))).toBeNull();
  const bound: Any = new Leases();
  bound.take("id", { at: at(0), want: 2, cost: 1 }, answerOf(1, 1, { units: 8 }, { allowed_ips: ["203.0.113.0/24"] }), at(1));
  expect(bound.admit("id", {}, at(2))).toBeNull();
  expect(bound.question("id", at(3))).toMatchObject({ want: 0, back: [{ lease: "lease 1", unused: 8 }] });
});

it("Requests wait for a call that asks for a lease, until such a call has brought none", () => {
  const leases: Any = new Leases();
  expect(leases.question("id", at(0), 1, 3)).toMatchObject({ want: 3, isForAll: true });
  leases.take("id", { at: at(0), want: 3, cost: 1 }, answerOf(1, 1), at(1));
  for (const ms of [2, 3]) leases.admit("id", {}, at(ms));
  const next = leases.question("id", at(4), 1, 3);
  expect([next.want > 1, next.isForAll]).toEqual([true, false]);
  leases.take("id", { at: at(4), ...next, cost: 1 }, answerOf(2, 2, { units: 2 }), at(5));
  for (const ms of [6, 7]) expect(leases.admit("id", {}, at(ms))).not.toBeNull();
  expect(leases.question("id", at(8), 1, 3)).toMatchObject({ isForAll: true });
});
