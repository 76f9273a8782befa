import { denialCache } from "../admission/denial-cache.ts";
import { leases } from "../admission/lease-holder.ts";

/** The end of the leases that guards have given before a change. The one that made the change tells all guards first, and then waits once. */
export class LeasesOfChange {
  #endsAt = 0;

  /** Notes how long leases of an earlier configuration may last from now on, in milliseconds. Ends what this isolate knows of the key. */
  add(keyId: string, outdatedForMs: number | undefined): void {
    forgetDecisions(keyId);
    this.#endsAt = Math.max(this.#endsAt, Date.now() + (outdatedForMs ?? 0));
  }

  /** Returns when every request is judged by the change. */
  async ended(): Promise<void> {
    for (let left = this.#endsAt - Date.now(); left > 0; left = this.#endsAt - Date.now())
      await new Promise((resolve) => setTimeout(resolve, left));
  }
}

/** Ends the lease of a key in this isolate, and forgets its denials. */
export function forgetDecisions(keyId: string): void {
  leases.drop(keyId);
  denialCache.forget(keyId, Date.now());
}
