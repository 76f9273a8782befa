import type { LeaseReceipt } from "../../credentials/receipt.ts";
import { minuteMs } from "../../lib/time/clock.ts";

const maxLeases = 20_000;
/** Entries of a lease come for ten minutes at most. */
const keptMs = 11 * minuteMs;

/** What this isolate knows of the units of leases that entries have used. A process of the team cannot log more requests than it was allowed to decide. */
class LeaseUses {
  readonly #used = new Map<string, { ids: Set<string>; units: number; until: number }>();

  /** Notes an entry. Returns whether its lease has the units. The same entry again uses none. */
  use({ id: leaseId, units }: Pick<LeaseReceipt, "id" | "units">, entryId: string, cost: number, now: number): boolean {
    const known = this.#used.get(leaseId) ?? { ids: new Set(), units: 0, until: now + keptMs };
    if (known.ids.has(entryId)) return true;
    if (known.units + cost > units) return false;
    known.ids.add(entryId);
    known.units += cost;
    this.#used.set(leaseId, known);
    for (const [oldest, { until }] of this.#used) {
      if (until > now && this.#used.size <= maxLeases) break;
      this.#used.delete(oldest);
    }
    return true;
  }
}

export const leaseUses = new LeaseUses();
