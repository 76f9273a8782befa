import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { load, median, pace, quantile, type Run, type Variant } from "./load.ts";
import { startVariants } from "./variants.ts";

/**
 * The number of starts of all variants, and the number of rounds after each start. Processes of the same variant differ in speed, so one start
 * is not enough.
 */
interface Rounds {
  starts: number;
  ofStart: number;
  warmSeconds?: number;
}
/**
 * The number of runs under full load in each round. Results under full load vary more than results at an even pace. Full load therefore needs
 * more runs per round. Each round has one run at an even pace.
 */
const loadsInRound = 2;
const seconds = 2;
/**
 * The warm-up time in seconds. V8 needs about 15 seconds to optimize the product's code. The bare Worker also runs before and after every other
 * variant, so the bare Worker is warm sooner.
 */
const warmSeconds = 15;
const usualRounds: Rounds = { starts: 3, ofStart: 2 };
/** The pause after each run, in milliseconds. In this pause, a variant writes the rest of its log. */
const pauseMs = 300;
/** The request rate of a run at an even pace, in requests per second. Even the slowest variant handles this rate easily. */
export const pacedRate = 200;
/**
 * The duration of a run at an even pace, in seconds. One full garbage collection delays about 20 requests. In a much shorter run, a single
 * garbage collection could determine the 99th percentile.
 */
const pacedSeconds = 15;
const connections = 32;

/** The runs of one variant, in the order of the rounds. `full` contains the runs under full load, and `paced` contains the runs at an even pace. */
export interface Measured {
  name: string;
  full: Run[];
  /**
   * The throughput of each run in `full`, divided by the bare Worker's throughput. The bare Worker is measured immediately before and after
   * each run.
   */
  shares: number[];
  paced: Run[];
}

interface Measurement {
  startAll?: (folder: string, start: number) => Promise<{ variants: Variant[]; stop(): Promise<void> }>;
  rounds?: Rounds;
  isPaced?: boolean;
}

/**
 * Measures all variants in turn, in several rounds. Other load on the machine therefore affects all variants. `startAll` starts the variants
 * and returns the bare Worker as the first variant. The default of `startAll` is `startVariants`. If `isPaced` is true, the variants are also
 * measured at an even pace.
 */
export async function measureThroughput(
  folder: string,
  { startAll = startVariants, rounds = usualRounds, isPaced = true }: Measurement = {},
): Promise<Measured[]> {
  const measured = new Map<string, Measured>();
  const { starts, ofStart } = rounds;
  for (let start = 0; start < starts; start++) {
    const { variants, stop } = await startAll(join(folder, `start-${start}`), start);
    try {
      for (const variant of variants) await runOf(variant, rounds.warmSeconds ?? warmSeconds);
      for (let round = 0; round < ofStart; round++) {
        await measureRound(variants, measured, isPaced);
        console.log(`throughput: round ${start * ofStart + round + 1} of ${starts * ofStart}`);
      }
    } finally {
      await stop();
    }
  }
  return [...measured.values()];
}

async function measureRound(variants: readonly Variant[], measured: Map<string, Measured>, isPaced: boolean): Promise<void> {
  const [bare] = variants;
  if (!bare) throw new Error("there is nothing to measure");
  const measuredOf = ({ name }: Variant): Measured => {
    const known = measured.get(name) ?? { name, full: [], shares: [], paced: [] };
    measured.set(name, known);
    return known;
  };
  for (let n = 0; n < loadsInRound; n++) {
    let before = await runOf(bare, seconds);
    for (const variant of variants) {
      const run = await runOf(variant, seconds);
      const after = await runOf(bare, seconds);
      const { full, shares } = measuredOf(variant);
      full.push(run);
      shares.push((2 * run.requestsPerSecond) / (before.requestsPerSecond + after.requestsPerSecond));
      before = after;
    }
  }
  for (const variant of isPaced ? variants.filter(({ isAttack }) => !isAttack) : []) {
    await variant.before?.();
    await sleep(pauseMs);
    measuredOf(variant).paced.push(await pace(variant, pacedSeconds, pacedRate, connections));
  }
}

async function runOf(variant: Variant, runSeconds: number): Promise<Run> {
  await variant.before?.();
  const run = await load(variant, runSeconds);
  await sleep(pauseMs);
  return run;
}

/** Returns one figure for each run of a variant, for example its CPU time. */
export type Figure = (measured: Measured) => number[];

export const medianOf = (measured: Measured, figure: Figure): number => median(figure(measured));

/** The distribution of a ratio over all runs. For half of the runs, the ratio is between `low` and `high`. */
export interface Ratio {
  low: number;
  median: number;
  high: number;
}

/**
 * For each run, divides a figure of one variant by the same figure of another variant. A temporary disturbance of the machine affects both
 * variants, so the ratio hardly changes.
 */
export function ratioOf(one: Measured, other: Measured, figure: Figure): Ratio {
  const others = figure(other);
  return spreadOf(figure(one).map((value, index) => value / (others[index] ?? Number.NaN)));
}

/** Returns the throughput of a variant as a share of the bare Worker's throughput. */
export const shareOfBare = ({ shares }: Measured): Ratio => spreadOf(shares);

const spreadOf = (ratios: readonly number[]): Ratio => ({
  low: quantile(ratios, 0.25),
  median: median(ratios),
  high: quantile(ratios, 0.75),
});
