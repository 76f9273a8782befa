import type { Admission, AdmissionRequest, DenialCode } from "../guard/decision.ts";
import { secondMs } from "../lib/time/clock.ts";

const cacheMs = secondMs;
/** The time for which a change of a key is remembered, in milliseconds. This time must be longer than the timeout of a guard call (5 s). */
const changeCacheMs = 10 * secondMs;
/** The maximum number of cached denials, for all keys together. A full cache takes about 2 MB of an isolate's 128 MB. */
const maxDenials = 2_000;
/** The maximum number of cached denials of one key. A client chooses the address and the route of each request. */
const maxOfKey = 100;
const maxChanges = 10_000;
const lasting: readonly (DenialCode | null)[] = ["revoked_key", "rate_limit_exceeded"];

/** Verifications have answers of their own, because the answers contain more facts about the key. */
const questionOf = ({ secretHash, ip, scope, counted, cost = 1, verification }: AdmissionRequest) =>
  `${secretHash} ${ip} ${scope} ${counted} ${cost}${verification ? " verification" : ""}`;

interface Denial {
  admission: Admission;
  requestedAt: number;
  until: number;
}

/**
 * Caches denials in an isolate, so that a flood of denied requests costs little. A denial is cached only if the key is revoked or the limit
 * has no room. A cached denial expires one second after the guard was asked, and at the latest when the limit has room. Admissions are
 * never cached, so a stricter configuration of a key takes effect immediately. A less strict configuration takes effect within two seconds.
 */
export class DenialCache {
  /** The cached denials, mapped by key id. The inner maps hold the denials of one key, mapped by the fields of the request. */
  readonly #denials = new Map<string, Map<string, Denial>>();
  /**
   * The time at which this isolate last changed a key, mapped by key id, in milliseconds since the epoch. If the guard was asked before
   * that change, its denial is ignored.
   */
  readonly #changes = new Map<string, number>();
  #size = 0;
  #expiredAt = 0;

  get size(): number {
    return this.#size;
  }

  recall(keyId: string, request: AdmissionRequest, now: number): Admission | null {
    const denial = this.#denials.get(keyId)?.get(questionOf(request));
    // If the clock is set back, a denial could stay valid for too long. The condition therefore also compares `now` with `requestedAt`.
    return denial && now >= denial.requestedAt && now < denial.until && denial.requestedAt > this.#changedAt(keyId)
      ? denial.admission
      : null;
  }

  /**
   * If a guard's decision is a denial that may be cached, caches this decision. `requestedAt` is the time when the guard was asked, not the
   * time when the guard responded. A cached denial is therefore at most one second old.
   */
  store(keyId: string, request: AdmissionRequest, admission: Admission, requestedAt: number): void {
    if (!lasting.includes(admission.refusal) || admission.violation?.isLeasedOut) return;
    this.#expire(requestedAt);
    if (this.#size >= maxDenials) this.#forgetAll();
    const ofKey = this.#denials.get(keyId) ?? new Map<string, Denial>();
    this.#denials.set(keyId, ofKey);
    this.#size -= ofKey.size;
    if (ofKey.size >= maxOfKey) ofKey.clear();
    const { violation, rateLimit } = admission;
    const until = Math.min(requestedAt + cacheMs, violation?.roomFrom ?? rateLimit.resetsAt);
    ofKey.set(questionOf(request), { admission, requestedAt, until });
    this.#size += ofKey.size;
  }

  /** Deletes the cached denials of a changed key. The next request with the key therefore asks the guard again. */
  forget(keyId: string, now: number): void {
    this.#expire(now);
    this.#size -= this.#denials.get(keyId)?.size ?? 0;
    this.#denials.delete(keyId);
    if (this.#changes.size >= maxChanges) this.#changes.clear();
    this.#changes.set(keyId, now);
  }

  #changedAt(keyId: string): number {
    return this.#changes.get(keyId) ?? Number.NEGATIVE_INFINITY;
  }

  #forgetAll(): void {
    this.#denials.clear();
    this.#size = 0;
  }

  /** Deletes expired entries. If the last deletion was less than one second ago, does nothing. */
  #expire(now: number): void {
    if (now < this.#expiredAt + cacheMs) return;
    this.#expiredAt = now;
    this.#size = 0;
    for (const [keyId, ofKey] of this.#denials) {
      for (const [question, { until }] of ofKey) if (now >= until) ofKey.delete(question);
      if (ofKey.size === 0) this.#denials.delete(keyId);
      this.#size += ofKey.size;
    }
    for (const [keyId, changedAt] of this.#changes) if (now - changedAt > changeCacheMs) this.#changes.delete(keyId);
  }
}

/** The cache that all requests of an isolate share. */
export const denialCache = new DenialCache();
