/** The longest time for which a guard gives a lease to an isolate, in milliseconds. */
const maxLeaseMs = 1000;

/** The longest time for which a guard gives a lease to a process of the team, in milliseconds. */
export const processLeaseMs = 2000;

/** Returns how long a lease lasts, in milliseconds. 0 turns leases off. Without the setting, or if it is not a number, a lease lasts a second. */
export function leaseMsOf({ LEASE_MS }: { LEASE_MS?: string }): number {
  const given = LEASE_MS === undefined || LEASE_MS.trim() === "" ? maxLeaseMs : Number(LEASE_MS);
  return Number.isFinite(given) ? Math.max(0, Math.min(given, maxLeaseMs)) : maxLeaseMs;
}
