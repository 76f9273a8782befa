/** Who decided about requests, and what became of the units of leases. */
export interface Decisions {
  /** The requests that an isolate admitted by a lease, that a guard decided, and whose denial an isolate remembered. */
  lease: number;
  guard: number;
  denialCache: number;
  /** The units of leases that guards gave, that came back, and that did not come back in time. */
  given: number;
  returned: number;
  wasted: number;
}

export const noDecisions = (): Decisions => ({ lease: 0, guard: 0, denialCache: 0, given: 0, returned: 0, wasted: 0 });

export const addDecisions = (one: Decisions, other: Partial<Decisions> = {}): Decisions => ({
  lease: one.lease + (other.lease ?? 0),
  guard: one.guard + (other.guard ?? 0),
  denialCache: one.denialCache + (other.denialCache ?? 0),
  given: one.given + (other.given ?? 0),
  returned: one.returned + (other.returned ?? 0),
  wasted: one.wasted + (other.wasted ?? 0),
});
