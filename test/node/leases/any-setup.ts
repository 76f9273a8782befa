import type { Mistake, Setup } from "./simulation.ts";

/** Returns a random schedule with faults and changes. */
export function anySetup(seed: number, mistake?: Mistake): Setup {
  const pick = <Value>(values: readonly Value[], salt: number): Value =>
    values[(Math.imul(seed, 2654435761 + salt) >>> 9) % values.length] as Value;
  const limit = pick([30, 200, 1000, 5000], 1);
  const isShared = pick([false, false, true], 2);
  const limits = pick(
    [
      [{ per: "hour", limit }],
      [
        { per: "hour", limit },
        { per: "day", limit: Math.ceil(1.5 * limit) },
      ],
    ] as const,
    3,
  );
  return {
    seed,
    keys: isShared ? 3 : pick([1, 1, 2], 4),
    holders: 1 + pick([0, 1, 2, 3, 4, 5], 5),
    limits,
    shared: isShared ? [{ per: "hour", limit: pick([100, 800, 5000], 6) }] : [],
    rate: pick([2, 20, 100], 7),
    durationMs: pick([2500, 5000, 10_000], 8),
    faults: true,
    changes: isShared ? 0 : 3,
    cost: pick([1, 5], 9),
    leaseMs: 1000,
    mistake,
  };
}
