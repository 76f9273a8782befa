import { load, median, pace, type Run } from "./load.ts";
import { startVariants } from "./variants.ts";

const rounds = 9;
const seconds = 3;
/** A second, for the latency of all at the same pace: what the slowest of them can do with ease. */
export const pacedRate = 200;
const pacedSeconds = 4;
const connections = 32;

/** One round of a variant: under full load, and at an even pace. */
export interface Round {
  full: Run;
  paced: Run;
}

export interface Measured {
  name: string;
  rounds: Round[];
}

/** Every variant once in each round, in turn, so that what else the machine does falls on all of them. */
export async function measureThroughput(folder: string): Promise<Measured[]> {
  const { variants, stop } = await startVariants(folder);
  try {
    for (const variant of variants) await load(variant, 2);
    const measured = variants.map(({ name }): Measured => ({ name, rounds: [] }));
    for (let round = 0; round < rounds; round++) {
      for (const [index, variant] of variants.entries())
        measured[index]?.rounds.push({
          full: await load(variant, seconds),
          paced: await pace(variant, pacedSeconds, pacedRate, connections),
        });
      console.log(`throughput: round ${round + 1} of ${rounds}`);
    }
    return measured;
  } finally {
    await stop();
  }
}

/** The median of a figure over the rounds. */
export const medianOf = ({ rounds }: Measured, figure: (round: Round) => number): number => median(rounds.map(figure));

/** How much of a figure one variant has of another's: the median of the rounds' ratios, since a round's noise falls on both. */
export const ratioOf = (one: Measured, other: Measured, figure: (round: Round) => number): number =>
  median(one.rounds.flatMap((round, index) => (other.rounds[index] ? [figure(round) / figure(other.rounds[index])] : [])));
