import { secondMs } from "../time/clock.ts";
import type { Admission, AdmissionRequest, DenialCode } from "./admission.ts";

const keptMs = secondMs;
/** Longer than any answer of a guard is waited for. */
const changeKeptMs = 10 * secondMs;
/** Of all keys together: some 2 MB of the 128 that an isolate has. */
const maxDenials = 2_000;
const maxChanges = 10_000;
const lasting: readonly (DenialCode | null)[] = ["revoked_key", "rate_limit_exceeded"];

const questionOf = ({ secretHash, ip, scope, counted }: AdmissionRequest) => `${secretHash} ${ip} ${scope} ${counted}`;

interface Denial {
  admission: Admission;
  askedAt: number;
  until: number;
}

/**
 * The denials that an isolate does not ask for again: those of a revoked key and of a used-up limit. They last a second from the guard's
 * response and never into the next hour. A flood of them so costs little. Acceptances are cached nowhere, so tightening a key holds at once;
 * loosening it does within two seconds.
 */
export class DenialCache {
  /** By key, then by what its guard was asked. */
  readonly #denials = new Map<string, Map<string, Denial>>();
  /** When this isolate last changed a key: what its guard was asked before then no longer counts. */
  readonly #changes = new Map<string, number>();
  #size = 0;
  #expiredAt = 0;

  /** How many denials are held. */
  get size(): number {
    return this.#size;
  }

  recall(keyId: string, request: AdmissionRequest, now: number): Admission | null {
    const denial = this.#denials.get(keyId)?.get(questionOf(request));
    // A clock that has stepped back would keep it for as long as it stepped.
    return denial && now >= denial.askedAt && now < denial.until && denial.askedAt > this.#changedAt(keyId) ? denial.admission : null;
  }

  /** `askedAt`: when the guard was asked, so that what it answered is never older than a second. */
  remember(keyId: string, request: AdmissionRequest, admission: Admission, askedAt: number): void {
    if (!lasting.includes(admission.refusal)) return;
    this.#expire(askedAt);
    if (this.#size >= maxDenials) this.#forgetAll();
    const ofKey = this.#denials.get(keyId) ?? new Map<string, Denial>();
    this.#denials.set(keyId, ofKey);
    this.#size -= ofKey.size;
    ofKey.set(questionOf(request), { admission, askedAt, until: Math.min(askedAt + keptMs, admission.rateLimit.resetsAt) });
    this.#size += ofKey.size;
  }

  /** Forgets what was held of a key, since it has been changed: the next request is told of its new state. */
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

  /** Drops what has expired, at most once a second. */
  #expire(now: number): void {
    if (now < this.#expiredAt + keptMs) return;
    this.#expiredAt = now;
    this.#size = 0;
    for (const [keyId, ofKey] of this.#denials) {
      for (const [question, { until }] of ofKey) if (now >= until) ofKey.delete(question);
      if (ofKey.size === 0) this.#denials.delete(keyId);
      this.#size += ofKey.size;
    }
    for (const [keyId, changedAt] of this.#changes) if (now - changedAt > changeKeptMs) this.#changes.delete(keyId);
  }
}

/** One for the isolate. */
export const denialCache = new DenialCache();
