// The prices of Cloudflare and what requests need, from which `npm run bill` and `npm run bench -- cost` compute costs.

/**
 * Prices on Cloudflare's paid plan in dollars, for usage beyond the included amounts. Read on 2026-11-23:
 * https://developers.cloudflare.com/workers/platform/pricing/ and https://developers.cloudflare.com/d1/platform/pricing/
 */
export const prices = {
  plan: 5,
  request: 0.3e-6,
  cpuMs: 0.02e-6,
  objectCall: 0.15e-6,
  objectGbSecond: 12.5e-6,
  objectRow: 1e-6,
  rowWritten: 1e-6,
  rowRead: 0.001e-6,
  storedGb: 0.75,
  logLine: 0.6e-6,
} as const;

/** What the plan includes each month. */
export const included = {
  requests: 10e6,
  cpuMs: 30e6,
  objectCalls: 1e6,
  objectGbSeconds: 400_000,
  objectRows: 50e6,
  rowsWritten: 50e6,
  rowsRead: 25_000e6,
  storedGb: 5,
  logLines: 20e6,
} as const;

/** The memory for which an object is billed, in GB. */
export const objectGb = 0.128;

/** What one request needs, counted at one pace. */
export interface Counted {
  /** The requests of one key in a second. */
  pace: number;
  objectCalls: number;
  /** The rows written in guards and log writers. */
  objectRows: number;
  rowsWritten: number;
  rowsRead: number;
  cpuMs: number;
  /** The size of a request in the log, with its share of the totals. */
  storedBytes: number;
}

/**
 * Counted with `npm run bench -- cost` on 2026-11-26 at commit 45c09a4 (docs/performance.md). The stored bytes were counted at commit a689814. The
 * slow pace is that of 10,000 accounts with five keys, each with one request a minute. The fast pace is that of 64 keys.
 */
export const counted: readonly [slow: Counted, fast: Counted] = [
  { pace: 1 / 60, objectCalls: 2.004, objectRows: 1.096, rowsWritten: 0.098, rowsRead: 9.172, cpuMs: 3.528, storedBytes: 44 },
  { pace: 1.4, objectCalls: 2.134, objectRows: 0.239, rowsWritten: 0.016, rowsRead: 0.051, cpuMs: 1.844, storedBytes: 17 },
];

export const monthSeconds = 2.628e6;
/** The days for which the log is kept, and the size of an activity database that is used. */
export const days = 31;
export const databaseGb = 9.5;
export const writersOfDatabase = 4;
/** The share of requests with a log line, and the lines of such a request: its own line, and a trace that counts as five. */
export const loggedShare = 0.01;
export const linesOfLogged = 6;
