import type { Moment } from "../lib/time/moment.ts";

// The holder's part of leases (see lease.ts). The holder is an isolate, or a process of the team. All functions are pure. `npm run generate` makes
// `integrations/node/held-lease.js` from this file, so both hold the same rules.

/** The guard waits this much longer than a lease lasts, for clocks that step while the lease is out, in milliseconds. */
export const marginMs = 250;
/** The most units of one lease. */
const maxUnits = 64;

/** What the rules need of a lease. `forMs`: how long it lasts from the time when the holder asked. */
interface LeaseTerms {
  units: number;
  forMs: number;
}

/** A lease in the hands of its holder. Both times are by the clock of the holder. */
export interface HeldLease<Terms extends LeaseTerms = LeaseTerms> {
  lease: Terms;
  unused: number;
  askedAt: number;
  until: number;
}

/** Takes a lease. It lasts from the time when the holder asked for it, so it ends for the holder before it ends for the guard. */
export const takeLease = <Terms extends LeaseTerms>(lease: Terms, askedAt: Moment): HeldLease<Terms> => ({
  lease,
  unused: lease.units,
  askedAt,
  until: askedAt + lease.forMs,
});

/** Returns whether a lease may admit a request of `cost` units. */
export const isUsable = ({ unused, askedAt, until }: HeldLease, cost: number, now: Moment): boolean =>
  unused >= cost && now >= askedAt && now < until;

/** Returns whether a lease is over: it has no units, or its time has passed. */
export const isOver = (held: HeldLease, now: Moment): boolean => !isUsable(held, 1, now);

/** Returns whether the clock has stepped back by more than the margin. The holder then ends its leases. `latest`: the latest time that it has seen. */
export const hasSteppedBack = (latest: number, now: Moment): boolean => now < latest - marginMs;

/** Returns whether the holder should ask for its next lease while it uses this one. */
export const isRunningOut = ({ lease, unused, askedAt, until }: HeldLease, now: Moment): boolean =>
  unused < lease.units / 2 || until - now < (until - askedAt) / 2;

/** Returns the times of the latest requests of a key, with that of one more. At most as many as a lease can have units. */
export const seenAt = (times: readonly number[], now: Moment, leaseMs: number): number[] =>
  [...times.filter((time) => time <= now && now - time < leaseMs), now].slice(-maxUnits);
