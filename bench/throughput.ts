import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { load, median, pace, type Run, type Variant } from "./load.ts";
import { startVariants } from "./variants.ts";

/**
 * How many times all variants are started, and the number of rounds per start. Processes of the same variant differ in speed, so one start is not
 * enough.
 */
interface Rounds {
  starts: number;
  ofStart: number;
}
const usualRounds: Rounds = { starts: 3, ofStart: 2 };
/**
 * The number of full-load runs per round. Figures at full load vary more than figures at an even pace, so full load needs more runs per round. At an
 * even pace, a round has one run.
 */
const loadsInRound = 2;
const seconds = 2;
/**
 * The warm-up time in seconds. V8 needs about 15 seconds to optimize the product's code. The bare Worker is warm sooner, because it also runs before
 * and after every other variant.
 */
const warmSeconds = 15;
/** The pause after every run in milliseconds, so that a variant writes its log before the next run starts. */
const pauseMs = 300;
/** The rate of runs at an even pace, in requests per second. Even the slowest variant handles this rate easily. */
export const pacedRate = 200;
/**
 * The duration of a run at an even pace, in seconds. One full garbage collection delays about 20 requests. The run is so long that one garbage
 * collection does not determine the p99.
 */
const pacedSeconds = 15;
const connections = 32;

/** The runs of a variant under full load and at an even pace, in the order of the rounds. */
export interface Measured {
  name: string;
  full: Run[];
  /** The throughput of each full-load run as a share of the bare Worker's throughput, which is measured just before and just after the run. */
  shares: number[];
  paced: Run[];
}

interface Measurement {
  startAll?: (folder: string, start: number) => Promise<{ variants: Variant[]; stop(): Promise<void> }>;
  rounds?: Rounds;
  isPaced?: boolean;
}

/**
 * Measures all variants in turn, round after round, so that other load on the machine affects all of them. `startAll` starts the variants, with the
 * bare Worker first. The default of `startAll` is `startVariants`. If `isPaced` is true, the variants are also measured at an even pace.
 */
export async function measureThroughput(
  folder: string,
  { startAll = startVariants, rounds: { starts, ofStart } = usualRounds, isPaced = true }: Measurement = {},
): Promise<Measured[]> {
  const measured = new Map<string, Measured>();
  for (let start = 0; start < starts; start++) {
    const { variants, stop } = await startAll(join(folder, `start-${start}`), start);
    try {
      for (const variant of variants) await runOf(variant, warmSeconds);
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

/** Selects one figure of every run of a variant. */
export type Figure = (measured: Measured) => number[];

export const medianOf = (measured: Measured, figure: Figure): number => median(figure(measured));

/** The spread of a ratio over all runs. Half of the runs lie between `low` and `high`. */
export interface Ratio {
  low: number;
  median: number;
  high: number;
}

/**
 * Divides a figure of one variant by the same figure of another, run by run. Pairing the runs cancels temporary disturbances of the machine, which
 * affect both variants.
 */
export function ratioOf(one: Measured, other: Measured, figure: Figure): Ratio {
  const others = figure(other);
  return spreadOf(figure(one).map((value, index) => value / (others[index] ?? Number.NaN)));
}

/** Returns the throughput of a variant as a share of the bare Worker's throughput. */
export const shareOfBare = ({ shares }: Measured): Ratio => spreadOf(shares);

function spreadOf(ratios: readonly number[]): Ratio {
  const sorted = ratios.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(part * sorted.length)] ?? Number.NaN;
  return { low: at(0.25), median: median(sorted), high: at(0.75) };
}
