import type { LeaseReceipt } from "../../credentials/receipt.ts";

/** The maximum number of entries that an isolate remembers, of all leases together. */
const maxEntries = 50_000;

/** What this isolate knows of the units of leases that entries have used. A process of the team cannot log more requests than it was allowed to decide. */
class LeaseUses {
  /** The ids of the entries of each lease, and the units that they have used. The oldest lease is first. */
  readonly #used = new Map<string, { ids: Set<string>; units: number }>();
  #entries = 0;

  /** Notes an entry. Returns whether its lease has the units. The same entry again uses none. */
  use({ id: leaseId, units }: Pick<LeaseReceipt, "id" | "units">, entryId: string, cost: number): boolean {
    const known = this.#used.get(leaseId) ?? { ids: new Set(), units: 0 };
    if (known.ids.has(entryId)) return true;
    if (known.units + cost > units) return false;
    known.ids.add(entryId);
    known.units += cost;
    this.#used.set(leaseId, known);
    this.#entries++;
    for (const [oldest, { ids }] of this.#used) {
      if (this.#entries <= maxEntries) break;
      this.#used.delete(oldest);
      this.#entries -= ids.size;
    }
    return true;
  }
}

export const leaseUses = new LeaseUses();
