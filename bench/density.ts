import { join } from "node:path";
import { type Sizes, simulate } from "./cost.ts";

/** The requests per second of one simulated account. */
const perSecond = 3;
const databaseBytes = 10e9;
const kept = { segments: 31, hours: 62, days: 400 };

/** Kinds of traffic. `demo` is like the sample data. `hard` has many different values, which compress badly. */
const kinds = {
  demo: { keys: 5, addresses: 10, tasks: 50 },
  hard: { keys: 200, addresses: 5000, tasks: 2000 },
};

export interface Density {
  name: string;
  /** The bytes of segments in D1 per request. */
  segmentBytes: number;
  /** The bytes of all tables per request, if each is kept as long as its retention. Includes the unused parts of database pages. */
  bytes: number;
  /** The requests per second of all accounts together that a database of 10 GB has room for. */
  perSecond: number;
}

/** Measures the bytes that requests need in D1. Each kind of traffic is simulated for one day, with one account. */
export async function measureDensity(folder: string): Promise<Density[]> {
  const measured: Density[] = [];
  for (const [name, kind] of Object.entries(kinds)) {
    const { requests, sizes } = await simulate(join(folder, name), { ...kind, accounts: 1, perSecond, hours: 24 });
    const bytes = (keptBytes(sizes) * unusedFactor(sizes)) / (kept.segments * requests);
    measured.push({ name, segmentBytes: sizes.segments / requests, bytes, perSecond: databaseBytes / (kept.segments * 86_400 * bytes) });
  }
  return measured;
}

/** Returns the bytes of all tables at the end of their retention, from their bytes after one day. */
const keptBytes = ({ segments, hours, days, uses }: Sizes) => kept.segments * segments + kept.hours * hours + kept.days * days + uses;

/** Returns the size of the database, divided by the size of its contents. */
const unusedFactor = ({ database, segments, hours, days, uses }: Sizes) => database / (segments + hours + days + uses);
