import { load, median, pace, type Run } from "./load.ts";
import { startVariants } from "./variants.ts";

const rounds = 3;
const seconds = 5;
/** A second, for the latency of all at the same pace: what the slowest of them can do with ease. */
export const pacedRate = 200;
const pacedSeconds = 8;
const connections = 32;

export interface Measured {
  name: string;
  requestsPerSecond: number;
  cpuMs: number;
  p99: number;
  pacedP50: number;
  pacedP99: number;
}

/** Every variant once in each round, in turn, so that what else the machine does falls on all of them. Medians of the rounds. */
export async function measureThroughput(folder: string): Promise<Measured[]> {
  const { variants, stop } = await startVariants(folder);
  try {
    for (const variant of variants) await load(variant, 2);
    const runs = variants.map((): { full: Run; paced: Run }[] => []);
    for (let round = 0; round < rounds; round++) {
      for (const [index, variant] of variants.entries())
        runs[index]?.push({ full: await load(variant, seconds), paced: await pace(variant, pacedSeconds, pacedRate, connections) });
      console.log(`throughput: round ${round + 1} of ${rounds}`);
    }
    return variants.map(({ name }, index) => {
      const of = (pick: (run: { full: Run; paced: Run }) => number) => median((runs[index] ?? []).map(pick));
      return {
        name,
        requestsPerSecond: of(({ full }) => full.requestsPerSecond),
        cpuMs: of(({ full }) => full.cpuMs),
        p99: of(({ full }) => full.p99),
        pacedP50: of(({ paced }) => paced.p50),
        pacedP99: of(({ paced }) => paced.p99),
      };
    });
  } finally {
    await stop();
  }
}
