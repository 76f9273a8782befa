import { simulate } from "../test/node/leases/simulation.ts";

const keys = 64;

/** Simulates keys at an even pace over some isolates, with a round trip of 40 ms to the guards. Returns a table in Markdown. */
export async function leaseTable(): Promise<string> {
  const rows: string[] = [];
  for (const rate of [0.2, 1.4, 20])
    for (const holders of [1, 4, 16]) {
      const seconds = rate > 10 ? 60 : 900;
      const limits = [{ per: "hour" as const, limit: 1_000_000 }];
      const shape = { seed: 5, keys, holders, limits, shared: [], cost: 1, leaseMs: 1000, roundTripMs: 40, changes: 0, faults: false };
      const { near, calls, writes, requests } = await simulate({ ...shape, rate: keys * rate, durationMs: seconds * 1000 });
      const share = `${((100 * near) / requests).toFixed(1)} %`;
      rows.push(`| ${rate} | ${holders} | ${share} | ${(calls / requests).toFixed(2)} | ${(writes / requests).toFixed(3)} |`);
    }
  const head = ["requests a second and key", "isolates", "decided by leases", "calls of the guard a request", "rows written a request"];
  return [`| ${head.join(" | ")} |`, `| ${head.map(() => "---:").join(" | ")} |`, ...rows].join("\n");
}
