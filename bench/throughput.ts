import { load, median, pace, type Run } from "./load.ts";
import { startVariants } from "./variants.ts";

const rounds = 9;
/** Full load comes oftener in a round than the even pace: its figures are ratios of a few seconds, which differ more than what is compared. */
const loadsInRound = 2;
const seconds = 2;
/** A second, for the latency of all at the same pace: what the slowest of them can do with ease. */
export const pacedRate = 200;
const pacedSeconds = 4;
const connections = 32;

/** The runs of a variant under full load and at an even pace, in the order of the rounds. */
export interface Measured {
  name: string;
  full: Run[];
  paced: Run[];
}

/** Every variant in turn, again and again, so that what else the machine does falls on all of them. */
export async function measureThroughput(folder: string): Promise<Measured[]> {
  const { variants, stop } = await startVariants(folder);
  try {
    for (const variant of variants) await load(variant, 2);
    const measured = variants.map((variant) => ({ variant, name: variant.name, full: [] as Run[], paced: [] as Run[] }));
    for (let round = 0; round < rounds; round++) {
      for (let n = 0; n < loadsInRound; n++) for (const { variant, full } of measured) full.push(await load(variant, seconds));
      for (const { variant, paced } of measured) paced.push(await pace(variant, pacedSeconds, pacedRate, connections));
      console.log(`throughput: round ${round + 1} of ${rounds}`);
    }
    return measured;
  } finally {
    await stop();
  }
}

/** One figure of every run of a variant. */
export type Figure = (measured: Measured) => number[];

export const medianOf = (measured: Measured, figure: Figure): number => median(figure(measured));

/** A ratio as its rounds have it: half of them lie between `low` and `high`. */
export interface Ratio {
  low: number;
  median: number;
  high: number;
}

/** How much of a figure one variant has of another's, round by round, since what disturbs a round falls on both. */
export function ratioOf(one: Measured, other: Measured, figure: Figure): Ratio {
  const others = figure(other);
  const ratios = figure(one)
    .map((value, index) => value / (others[index] ?? Number.NaN))
    .toSorted((a, b) => a - b);
  const at = (part: number) => ratios[Math.floor(part * ratios.length)] ?? Number.NaN;
  return { low: at(0.25), median: median(ratios), high: at(0.75) };
}
