import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { load, median, pace, type Run, type Variant } from "./load.ts";
import { startVariants } from "./variants.ts";

/** How often all variants are started anew, so that the luck of one process is not taken for its variant's, and how many rounds each start has. */
interface Rounds {
  starts: number;
  ofStart: number;
}
const usualRounds: Rounds = { starts: 3, ofStart: 2 };
/** Runs under full load in a round, for one at the even pace: their figures differ more from run to run than variants do from each other. */
const loadsInRound = 2;
const seconds = 2;
/** V8 compiles a variant's code as it gets hotter, which takes ours some 15 seconds: bare, which runs beside every other, is hot soon. */
const warmSeconds = 15;
/** After every run, so that a variant has written its log before the next begins. */
const pauseMs = 300;
/** A second, for the latency of all at the same pace: what the slowest of them can do with ease. */
export const pacedRate = 200;
/** Long enough that one collection of a whole heap, which stops the isolate for some 20 requests, does not decide p99. */
const pacedSeconds = 15;
const connections = 32;

/** The runs of a variant under full load and at an even pace, in the order of the rounds. */
export interface Measured {
  name: string;
  full: Run[];
  /** What share each run under full load has of bare's requests a second just before it and just after. */
  shares: number[];
  paced: Run[];
}

interface Measurement {
  startAll?: (folder: string, start: number) => Promise<{ variants: Variant[]; stop(): Promise<void> }>;
  rounds?: Rounds;
  isPaced?: boolean;
}

/**
 * Every variant in turn, again and again, so that what else the machine does falls on all of them. The first is bare. `startAll`: which
 * variants, by default those of the comparison, and in which order at each start; `isPaced`: whether at an even pace too.
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

/** One figure of every run of a variant. */
export type Figure = (measured: Measured) => number[];

export const medianOf = (measured: Measured, figure: Figure): number => median(figure(measured));

/** A ratio as its runs have it: half of them lie between `low` and `high`. */
export interface Ratio {
  low: number;
  median: number;
  high: number;
}

/** How much of a figure one variant has of another's, run by run, since what disturbs the machine for a while falls on both. */
export function ratioOf(one: Measured, other: Measured, figure: Figure): Ratio {
  const others = figure(other);
  return spreadOf(figure(one).map((value, index) => value / (others[index] ?? Number.NaN)));
}

/** The share that a variant has of bare's requests a second. */
export const shareOfBare = ({ shares }: Measured): Ratio => spreadOf(shares);

function spreadOf(ratios: readonly number[]): Ratio {
  const sorted = ratios.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(part * sorted.length)] ?? Number.NaN;
  return { low: at(0.25), median: median(sorted), high: at(0.75) };
}
