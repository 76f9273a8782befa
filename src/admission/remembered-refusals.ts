import { secondMs } from "../clock.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "./admission.ts";

const rememberedMs = secondMs;
const mostRemembered = 10_000;
const lasting: readonly (RefusalCode | null)[] = ["revoked_key", "rate_limit_exceeded"];

const questionOf = (keyId: string, { secretHash, ip, scope, counted }: AdmissionRequest) =>
  `${keyId} ${secretHash} ${ip} ${scope} ${counted}`;

/**
 * The refusals that an isolate need not ask for again: of a revoked key and of a used-up limit, for a second from when the
 * guard was asked and never into the next hour. A flood of them so costs little. Acceptances are remembered nowhere, so
 * tightening a key holds at once; loosening it does within two seconds.
 */
export class RememberedRefusals {
  /** When this isolate last changed a key: what a guard was asked before then no longer counts. */
  readonly #changedAt = new Map<string, number>();
  readonly #remembered = new Map<string, { admission: Admission; askedAt: number; until: number }>();

  recall(keyId: string, request: AdmissionRequest, now: number): Admission | null {
    if (this.#remembered.size === 0) return null;
    const found = this.#remembered.get(questionOf(keyId, request));
    // A clock that has stepped back would keep it for as long as it stepped.
    return found && now >= found.askedAt && now < found.until && found.askedAt > this.#changeOf(keyId) ? found.admission : null;
  }

  /** `askedAt`: when the guard was asked, so that what it answered is never older than a second. */
  remember(keyId: string, request: AdmissionRequest, admission: Admission, askedAt: number): void {
    if (!lasting.includes(admission.refusal)) return;
    if (this.#remembered.size >= mostRemembered) this.#remembered.clear();
    const until = Math.min(askedAt + rememberedMs, admission.rateLimit.resetsAt);
    this.#remembered.set(questionOf(keyId, request), { admission, askedAt, until });
  }

  /** Forgets what was remembered of a key, since it has been changed: the next request is told of its new state. */
  forget(keyId: string, now: number): void {
    if (this.#changedAt.size >= mostRemembered) {
      this.#changedAt.clear();
      this.#remembered.clear();
    }
    this.#changedAt.set(keyId, now);
  }

  #changeOf(keyId: string): number {
    return this.#changedAt.get(keyId) ?? Number.NEGATIVE_INFINITY;
  }
}

/** One for the isolate. */
export const rememberedRefusals = new RememberedRefusals();
