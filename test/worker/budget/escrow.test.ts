import { describe, expect, inject, it } from "vitest";
import { randomFrom } from "../../../scripts/seed-random.ts";
import { type Mistake, type Outcome, type Plan, type Setup, simulate } from "./escrow-simulation.ts";

const isLong = inject("isLong");
const schedules = isLong ? 20_000 : 500;

const faultless: Setup = {
  guards: 50,
  limits: [{ per: "hour", limit: 500 }],
  loss: 0,
  repeats: 0,
  late: 0,
  crashes: 0,
  lostDisks: 0,
  clockError: 0,
};

/** Returns a random run with faults. The run begins two minutes before the end of an hour, a day and a month. */
function anyRun(seed: number): { setup: Setup; plan: Plan } {
  const random = randomFrom(seed);
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)] as Value;
  const periods = pick([["hour"], ["hour", "day"], ["day", "month"], ["hour", "day", "month"]] as const);
  const limits = periods.map((per) => ({ per, limit: Math.ceil(5 + random() * 250) }));
  const setup: Setup = {
    guards: pick([1, 3, 8, 50]),
    limits,
    loss: pick([0, 0, 0.05, 0.3]),
    repeats: pick([0, 0.1]),
    late: pick([0, 0.05]),
    crashes: pick([0, 0.02, 0.2]),
    lostDisks: pick([0, 0.3]),
    clockError: pick([0, 300, 900]),
  };
  const lowerTo = random() < 0.5 ? limits.map(({ per, limit }) => ({ per, limit: Math.ceil(limit * random()) })) : undefined;
  const plan = {
    seed,
    requests: pick([60, 200, 500]),
    durationMs: pick([5000, 60_000, 200_000]),
    ...(lowerTo && { lowerTo }),
    removesLimit: random() < 0.4,
  };
  return { setup, plan };
}

/** Plays random runs until `isWanted` holds for an outcome. Returns the seed of that run, or null. */
function findRun(count: number, change: (setup: Setup) => Setup, isWanted: (outcome: Outcome) => boolean): number | null {
  for (let seed = 1; seed <= count; seed++) {
    const { setup, plan } = anyRun(seed);
    if (isWanted(simulate(change(setup), plan))) return seed;
  }
  return null;
}

describe("The budget of an account", () => {
  it("gives exactly its limit to 50 keys, if nothing fails", () => {
    for (const limits of [
      [{ per: "hour", limit: 500 }],
      [
        { per: "day", limit: 300 },
        { per: "month", limit: 500 },
      ],
    ] as const) {
      const least = Math.min(...limits.map(({ limit }) => limit));
      const outcome = simulate({ ...faultless, limits }, { seed: 7, requests: 600, durationMs: 60_000 });
      expect(outcome).toMatchObject({ admitted: least, refused: 600 - least, unavailable: 0, violations: [] });
    }
  });

  it("needs few calls far from its end", () => {
    const outcome = simulate({ ...faultless, limits: [{ per: "hour", limit: 100_000 }] }, { seed: 3, requests: 6000, durationMs: 60_000 });
    expect(outcome.admitted).toBe(6000);
    expect(outcome.calls / outcome.requests).toBeLessThan(0.2);
  });

  it("never gives more than its limit, through losses, repeats, delays, crashes at every write, lost disks, sleep and clock steps", {
    tags: ["long"],
    timeout: 600_000,
  }, () => {
    const seed = findRun(
      schedules,
      (setup) => setup,
      ({ violations }) => violations.length > 0,
    );
    if (seed !== null) {
      const { setup, plan } = anyRun(seed);
      expect({ seed, setup, plan, violations: simulate(setup, plan).violations }).toMatchObject({ violations: [] });
    }
  });

  const mistakes: Mistake[] = [
    "grant leaves before it is on disk",
    "return is told before it is on disk",
    "grants are added up",
    "a recall forgets the grant on its way",
    "unused reservation is free after a crash",
    "a new incarnation starts with a clean row",
    "no margin at the end of a window",
    "lowering does not recall",
    "spending ignores one window",
    "a removed limit forgets its units",
  ];
  it.runIf(isLong).each(mistakes)(
    "is checked by a simulator that finds this mistake: %s",
    { tags: ["long"], timeout: 600_000 },
    (mistake) => {
      expect(
        findRun(
          20_000,
          (setup) => ({ ...setup, mistake }),
          ({ violations }) => violations.length > 0,
        ),
      ).not.toBeNull();
    },
  );
});
