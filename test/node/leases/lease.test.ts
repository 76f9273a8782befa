import { describe, expect, inject, it, vi } from "vitest";
import { LeaseHolder } from "../../../src/admission/lease-holder.ts";
import type { LeaseReturn } from "../../../src/budget/holding.ts";
import { AccountUnits } from "../../../src/guard/account-units.ts";
import type { Admission } from "../../../src/guard/decision.ts";
import type { Counted, Leases, StoredLeases } from "../../../src/guard/lease.ts";
import type { Windows } from "../../../src/guard/window.ts";
import type { Moment } from "../../../src/lib/time/moment.ts";
import { anySetup } from "./any-setup.ts";
import { type Mistake, type Outcome, type Setup, simulate } from "./simulation.ts";

/** Mistakes in the rules themselves. */
type RuleMistake =
  | "acceptsReturnsTwice"
  | "acceptsReturnsOfEarlierLives"
  | "returnsIntoAnyWindow"
  | "forgetsEarlierLife"
  | "trustsOtherClock";
const rules = vi.hoisted(() => ({ mistake: undefined as RuleMistake | undefined }));

vi.mock("../../../src/guard/lease.ts", async (load) => {
  const real = await load<typeof import("../../../src/guard/lease.ts")>();
  const given = new Map<string, Leases["out"][number]>();
  return {
    ...real,
    addLease(...args: Parameters<typeof real.addLease>) {
      const leases = real.addLease(...args);
      for (const lease of leases.out) given.set(lease.id, lease);
      return leases;
    },
    settle(leases: Leases, returns: readonly LeaseReturn[], now: number) {
      const result = real.settle(leases, returns, now);
      const isRepeated = rules.mistake === "acceptsReturnsTwice" || rules.mistake === "acceptsReturnsOfEarlierLives";
      const again = isRepeated ? returns.filter(({ id }) => !result.settled.some((each) => each.id === id)) : [];
      const repeated = [...again, ...(rules.mistake === "acceptsReturnsTwice" ? returns : [])].flatMap(({ id, unused }) => {
        const lease = given.get(id);
        return lease ? [{ ...lease, unused, isLost: false }] : [];
      });
      return { ...result, settled: [...result.settled, ...repeated] };
    },
    recoveredLeases(stored: StoredLeases | undefined, now: number) {
      const leases = real.recoveredLeases(stored, now);
      return rules.mistake === "forgetsEarlierLife" ? { ...leases, outdatedUntil: 0 } : leases;
    },
  };
});

vi.mock("../../../src/guard/window.ts", async (load) => {
  const real = await load<typeof import("../../../src/guard/window.ts")>();
  return {
    ...real,
    takeBack(windows: Windows, counted: readonly Counted[], units: number) {
      return real.takeBack(windows, rules.mistake === "returnsIntoAnyWindow" ? windows.fixed : counted, units);
    },
  };
});

const schedules = inject("isLong") ? 20_000 : 300;

async function firstViolation(count: number, mistake?: Mistake, changed: Partial<Setup> = {}): Promise<string | null> {
  for (let seed = 1; seed <= count; seed++) {
    const { violations } = await simulate({ ...anySetup(seed, mistake), ...changed });
    if (violations.length > 0) return `seed ${seed}: ${violations[0]}`;
  }
  return null;
}

async function withMistake<Result>(mistake: RuleMistake, work: () => Promise<Result>): Promise<Result> {
  rules.mistake = mistake;
  try {
    return await work();
  } finally {
    rules.mistake = undefined;
  }
}

const faultless = { faults: false, changes: 0, cost: 1, leaseMs: 1000, shared: [], keys: 1 };

describe("With leases", () => {
  it("no limit is exceeded and every request is judged by the changes before it, through losses, repeats, crashes, restarts and clocks that step", {
    tags: ["long"],
    timeout: 1_200_000,
  }, async () => {
    expect(await firstViolation(schedules)).toBeNull();
  });

  it.each([
    ["noWait", 200],
    ["noMark", 3000],
    ["longer", 200],
    ["fromAnswer", 3000],
    ["reserveLess", 200],
    ["otherClock", 1000],
  ] as const)("the simulation finds the mistake %s", { tags: ["long"], timeout: 600_000 }, async (mistake, count) => {
    const isFast = count <= 1000;
    if (!isFast && !inject("isLong")) return;
    expect(await firstViolation(count, mistake)).not.toBeNull();
  });

  /** Returns come late, after the end of their window, if its last leases end with messages in flight. */
  const atTheEndOfAnHour: Partial<Setup> = {
    keys: 1,
    holders: 6,
    limits: [{ per: "hour", limit: 200 }],
    shared: [],
    rate: 60,
    durationMs: 12_000,
    changes: 0,
    cost: 1,
    beforeHourMs: 3200,
  };

  it.each([
    ["acceptsReturnsTwice", 300, {}],
    ["returnsIntoAnyWindow", 300, atTheEndOfAnHour],
    ["forgetsEarlierLife", 3000, {}],
  ] as const)("the simulation finds the mistake %s in the rules", { tags: ["long"], timeout: 600_000 }, async (mistake, count, changed) => {
    if (count > 300 && !inject("isLong")) return;
    expect(await withMistake(mistake, () => firstViolation(count, undefined, changed))).not.toBeNull();
  });

  it("returns of an earlier life of the guard would be harmless, because a holder sends each return once and counted units are on disk", {
    tags: ["long"],
    timeout: 600_000,
  }, async () => {
    expect(await withMistake("acceptsReturnsOfEarlierLives", () => firstViolation(inject("isLong") ? 3000 : 100))).toBeNull();
  });

  it.each([
    ["5,000 over one isolate", { limit: 5000, requests: 6000, rate: 200, holders: 1 }],
    ["5,000 over six isolates", { limit: 5000, requests: 6000, rate: 1000, holders: 6 }],
    ["50 over four isolates", { limit: 50, requests: 70, rate: 5, holders: 4 }],
    ["600 over ten isolates", { limit: 600, requests: 1000, rate: 100, holders: 10 }],
    ["5,000 of an account with 50 keys", { limit: 5000, requests: 6000, rate: 500, holders: 4, keys: 50, isShared: true }],
    ["5,000 of an account with four keys", { limit: 5000, requests: 6000, rate: 1000, holders: 4, keys: 4, isShared: true }],
  ])(
    "exactly the limit is admitted without faults: %s",
    { timeout: 120_000 },
    async (
      _,
      {
        limit,
        requests,
        rate,
        holders,
        keys = 1,
        isShared = false,
      }: {
        limit: number;
        requests: number;
        rate: number;
        holders: number;
        keys?: number;
        isShared?: boolean;
      },
    ) => {
      const limits = [{ per: "hour", limit }] as const;
      const shared = isShared ? limits : [];
      const outcome = await simulate({
        ...faultless,
        seed: 7,
        keys,
        holders,
        limits,
        shared,
        rate,
        durationMs: (requests / rate) * 1000,
        roundTripMs: 10,
      });
      expect([outcome.admitted, outcome.stranded, outcome.violations]).toEqual([limit, 0, []]);
    },
  );

  it("no response of one isolate shows less than what is used, with requests in flight when a lease comes", async () => {
    for (let seed = 1; seed <= 60; seed++) {
      const rate = [3, 20, 400][seed % 3] ?? 1;
      const limits = [{ per: "hour", limit: 100_000 }] as const;
      const { shown } = await simulate({ ...faultless, seed, holders: 1, limits, rate, durationMs: 5000, roundTripMs: 40 });
      const sorted = shown.toSorted((a, b) => a - b);
      expect(sorted.filter((used, at) => used < at + 1)).toEqual([]);
      if (rate === 400) expect(sorted.at(-1)).toBe(shown.length);
    }
  });

  it("units of a limit that the account no longer has stay as they are", () => {
    const share = { startsAt: 0, got: 100, returned: 0, used: 5, leased: 0, reserved: 5, remaining: 50, limit: 500 };
    const stored = {
      nonce: "n",
      shares: [
        { per: "hour", ...share },
        { per: "day", ...share },
      ],
    } as const;
    const units = new AccountUnits("key_1", { budgets: {} as never, now: () => 1 }, stored, () => {});
    const shared = { accountId: "acc_1", limits: [{ per: "hour", limit: 500 }], periods: ["hour"], version: 2 } as const;
    const counted = units.lease(shared, 10, 1) ?? [];
    expect(counted).toEqual([{ per: "hour", startsAt: 0, nonce: "n" }]);
    units.endLease({ id: "l", units: 10, counted, until: 2, unused: 7, isLost: false });
    expect(units.stored?.shares).toMatchObject([
      { used: 8, leased: 0 },
      { per: "day", used: 5, leased: 0 },
    ]);
  });

  it("an isolate knows at most 10,000 keys, and none from an answer that denies", () => {
    const leases = new LeaseHolder();
    const request = { secretHash: "s", ip: "", scope: null, counted: true, cost: 1 };
    const answer = { refusal: null, revision: "1", key: { accountId: "acc_1" } } as Admission;
    const now = 1_000_000 as Moment;
    for (let n = 0; n < 1000; n++) leases.takeAnswer(`denied_${n}`, { ...request, at: now }, { ...answer, refusal: "revoked_key" }, now);
    expect(leases.size).toBe(0);
    for (let n = 0; n < 11_000; n++) leases.takeAnswer(`key_${n}`, { ...request, at: now }, answer, now);
    expect(leases.size).toBe(10_000);
  });

  it.each([
    [1.4, 0.8],
    [20, 0.15],
    [200, 0.03],
  ])("a key with %s requests a second in one isolate takes at most %s calls of its guard a request", async (rate, most) => {
    const outcome: Outcome = await simulate({
      ...faultless,
      seed: 5,
      keys: 4,
      holders: 1,
      limits: [{ per: "hour", limit: 100_000 }],
      rate: 4 * rate,
      durationMs: 120_000,
      roundTripMs: 40,
    });
    expect(outcome.calls / outcome.requests).toBeLessThan(most);
  });
});
