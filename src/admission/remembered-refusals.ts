import { secondMs } from "../clock.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "./admission.ts";

const rememberedMs = secondMs;
const mostKeys = 10_000;
const mostOfKey = 100;
const lasting: readonly (RefusalCode | null)[] = ["revoked_key", "rate_limit_exceeded"];

const questionOf = ({ secretHash, ip, scope, counted }: AdmissionRequest) => `${secretHash} ${ip} ${scope} ${counted}`;

interface OfKey {
  /** When this isolate last changed the key: what its guard was asked before then no longer counts. */
  changedAt: number;
  refusals: Map<string, { admission: Admission; askedAt: number; until: number }>;
}

/**
 * The refusals that an isolate need not ask for again: of a revoked key and of a used-up limit, for a second from when the
 * guard was asked and never into the next hour. A flood of them so costs little. Acceptances are remembered nowhere, so
 * tightening a key holds at once; loosening it does within two seconds.
 */
export class RememberedRefusals {
  readonly #byKey = new Map<string, OfKey>();

  recall(keyId: string, request: AdmissionRequest, now: number): Admission | null {
    const known = this.#byKey.get(keyId);
    const found = known?.refusals.get(questionOf(request));
    // A clock that has stepped back would keep it for as long as it stepped.
    return known && found && now >= found.askedAt && now < found.until && found.askedAt > known.changedAt ? found.admission : null;
  }

  /** `askedAt`: when the guard was asked, so that what it answered is never older than a second. */
  remember(keyId: string, request: AdmissionRequest, admission: Admission, askedAt: number): void {
    if (!lasting.includes(admission.refusal)) return;
    const { refusals } = this.#of(keyId);
    if (refusals.size >= mostOfKey) refusals.clear();
    refusals.set(questionOf(request), { admission, askedAt, until: Math.min(askedAt + rememberedMs, admission.rateLimit.resetsAt) });
  }

  /** Forgets what was remembered of a key, since it has been changed: the next request is told of its new state. */
  forget(keyId: string, now: number): void {
    const known = this.#of(keyId);
    known.changedAt = now;
    known.refusals.clear();
  }

  #of(keyId: string): OfKey {
    const known = this.#byKey.get(keyId);
    if (known) return known;
    if (this.#byKey.size >= mostKeys) this.#byKey.clear();
    const made: OfKey = { changedAt: Number.NEGATIVE_INFINITY, refusals: new Map() };
    this.#byKey.set(keyId, made);
    return made;
  }
}

/** One for the isolate. */
export const rememberedRefusals = new RememberedRefusals();
