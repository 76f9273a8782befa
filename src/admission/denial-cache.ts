import { secondMs } from "../time/clock.ts";
import type { Admission, AdmissionRequest, DenialCode } from "./admission.ts";

const cacheMs = secondMs;
/** How long a key change is remembered, in milliseconds. The time must exceed the timeout of a guard call, which is 5 s. */
const changeCacheMs = 10 * secondMs;
/** The maximum number of cached denials, for all keys together. A full cache takes about 2 MB of an isolate's 128 MB. */
const maxDenials = 2_000;
const maxChanges = 10_000;
const lasting: readonly (DenialCode | null)[] = ["revoked_key", "rate_limit_exceeded"];

const questionOf = ({ secretHash, ip, scope, counted }: AdmissionRequest) => `${secretHash} ${ip} ${scope} ${counted}`;

interface Denial {
  admission: Admission;
  requestedAt: number;
  until: number;
}

/**
 * Caches denials in an isolate, so that a flood of denied requests costs little. Only denials of a revoked key or an exhausted limit are cached. A
 * denial expires one second after the guard was asked, or at the end of the hour if that is earlier. Admissions are never cached, so a stricter
 * configuration of a key takes effect immediately. A less strict configuration takes effect within two seconds.
 */
export class DenialCache {
  /** The denials of each key id. The inner map has the denials by the request to the guard. */
  readonly #denials = new Map<string, Map<string, Denial>>();
  /**
   * The time of this isolate's last change to each key, in milliseconds since the epoch. A denial is ignored if the guard was asked before the
   * change.
   */
  readonly #changes = new Map<string, number>();
  #size = 0;
  #expiredAt = 0;

  get size(): number {
    return this.#size;
  }

  recall(keyId: string, request: AdmissionRequest, now: number): Admission | null {
    const denial = this.#denials.get(keyId)?.get(questionOf(request));
    // If the clock is set back, a denial could stay valid for too long, so `now` is also compared with `requestedAt`.
    return denial && now >= denial.requestedAt && now < denial.until && denial.requestedAt > this.#changedAt(keyId)
      ? denial.admission
      : null;
  }

  /**
   * Caches a guard's decision if the decision is a denial that may be cached. `requestedAt` is when the guard was asked, not when the guard
   * responded. A cached denial is therefore at most one second old.
   */
  store(keyId: string, request: AdmissionRequest, admission: Admission, requestedAt: number): void {
    if (!lasting.includes(admission.refusal)) return;
    this.#expire(requestedAt);
    if (this.#size >= maxDenials) this.#forgetAll();
    const ofKey = this.#denials.get(keyId) ?? new Map<string, Denial>();
    this.#denials.set(keyId, ofKey);
    this.#size -= ofKey.size;
    ofKey.set(questionOf(request), { admission, requestedAt, until: Math.min(requestedAt + cacheMs, admission.rateLimit.resetsAt) });
    this.#size += ofKey.size;
  }

  /** Deletes the cached denials of a key that was changed, so that the next request asks the guard. */
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

  /** Deletes expired entries, at most once a second. */
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
