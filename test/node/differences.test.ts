import { describe, expect, it } from "vitest";
import { mainDifference } from "../../src/usage/differences.ts";
import type { LocatedCell } from "../../src/usage/read-breakdown.ts";

/** Returns requests of a key to a route with a status. `meanMs`: their mean response time. */
const requests = (count: number, { key = "key_a", route = "/orders", status = 200, meanMs = 40 } = {}): LocatedCell => ({
  keyId: key,
  route,
  status,
  requests: count,
  counted: status === 429 ? 0 : count,
  timed: status === 429 ? 0 : count,
  durationMs: status === 429 ? 0 : count * meanMs,
  start: 0,
});

const usual = [requests(600), requests(270, { key: "key_b" }), requests(9, { status: 404 }), requests(2, { status: 500 })];

describe("The main difference between two times", () => {
  it("is none if the requests are the same, or differ by chance", () => {
    expect(mainDifference(usual, usual)).toBeNull();
    const similar = [requests(630), requests(250, { key: "key_b" }), requests(14, { status: 404 }), requests(6, { status: 500 })];
    expect(mainDifference(similar, usual)).toBeNull();
    expect(mainDifference([], [])).toBeNull();
    // Nine requests are too few to say anything.
    expect(mainDifference([requests(9, { status: 429 })], [])).toBeNull();
  });

  it("is the key whose requests were denied, even if its traffic grew", () => {
    const now = [requests(600), requests(2000, { key: "key_b" }), requests(687, { key: "key_b", status: 429 })];
    expect(mainDifference(now, usual)).toEqual({ kind: "denied", by: "key", values: ["key_b"], statuses: [429], now: 687, before: 0 });
  });

  it("is two dozen denied requests, even if the traffic of the key is new", () => {
    const now = [requests(60, { key: "key_b" }), requests(24, { key: "key_b", status: 429 })];
    expect(mainDifference(now, [])).toEqual({ kind: "denied", by: "key", values: ["key_b"], statuses: [429], now: 24, before: 0 });
  });

  it("is the route whose requests failed, or all routes if several failed alike", () => {
    const one = mainDifference([...usual, requests(120, { route: "/pay", status: 503 })], usual);
    expect(one).toEqual({ kind: "failed", by: "route", values: ["/pay"], statuses: [500, 503], now: 120, before: 0 });
    const failed = ["/a", "/b", "/c"].map((route) => requests(60, { route, status: 503 }));
    expect(mainDifference([...usual, ...failed], usual)).toEqual({
      kind: "failed",
      by: "route",
      values: ["/a", "/b", "/c"],
      statuses: [500, 503],
      now: 182,
      before: 2,
    });
  });

  it("is the key whose requests were rejected, if none were denied and none failed", () => {
    const now = [...usual, requests(90, { key: "key_b", status: 422 })];
    expect(mainDifference(now, usual)).toEqual({
      kind: "rejected",
      by: "key",
      values: ["key_b"],
      statuses: [404, 422],
      now: 90,
      before: 0,
    });
  });

  it("is the route that became slower, and not one with few requests", () => {
    const [fast, slow] = [requests(300, { route: "/search" }), requests(300, { route: "/search", meanMs: 90 })];
    expect(mainDifference([...usual, slow], [...usual, fast])).toEqual({
      kind: "times",
      by: "route",
      values: ["/search"],
      now: 90,
      before: 40,
    });
    const rare = [requests(20, { route: "/rare" }), requests(20, { route: "/rare", meanMs: 9000 })] as const;
    expect(mainDifference([...usual, rare[1]], [...usual, rare[0]])).toBeNull();
  });

  it("is what became better, if nothing became worse", () => {
    const outage = [requests(600), requests(76, { route: "/pay", status: 503 })];
    expect(mainDifference([requests(676)], outage)).toEqual({
      kind: "failed",
      by: "route",
      values: ["/pay"],
      statuses: [503],
      now: 0,
      before: 76,
    });
    const [slow, fast] = [requests(300, { route: "/search", meanMs: 90 }), requests(300, { route: "/search" })];
    expect(mainDifference([...usual, fast], [...usual, slow])).toMatchObject({ kind: "times", values: ["/search"], now: 40, before: 90 });
  });

  it("is the key with much more or much less traffic, if nothing else differs, and none for the first traffic of an account", () => {
    const more = [requests(600), requests(900, { key: "key_b" }), requests(9, { status: 404 })];
    expect(mainDifference(more, usual)).toEqual({
      kind: "more",
      by: "key",
      values: ["key_b"],
      now: 900,
      before: 270,
    });
    expect(mainDifference([requests(609)], usual)).toEqual({ kind: "fewer", by: "key", values: ["key_b"], now: 0, before: 270 });
    expect(mainDifference(usual, [])).toBeNull();
  });

  it("is not a small share of much traffic, although chance does not explain it", () => {
    const [now, before] = [
      [requests(1_000_000), requests(900, { status: 503 })],
      [requests(1_000_000), requests(100, { status: 503 })],
    ];
    expect(mainDifference(now, before)).toBeNull();
  });
});
