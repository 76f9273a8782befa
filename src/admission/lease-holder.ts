import type { LeaseReturn } from "../budget/holding.ts";
import {
  type Admission,
  type AdmissionRequest,
  type DenialCode,
  denialOf,
  type Lease,
  revisionOf,
  verifiedFactsOf,
} from "../guard/decision.ts";
import { callGuard, type Guards, requestAdmission } from "../guard/guards.ts";
import { type HeldLease, hasSteppedBack, isOver, isRunningOut, isUsable, seenAt, takeLease } from "../guard/held-lease.ts";
import { type LoadedKey, loadedKey } from "../guard/loaded-key.ts";
import { secondMs } from "../lib/time/clock.ts";
import { type Moment, thisMoment } from "../lib/time/moment.ts";
import { countDecisions } from "../log/isolate/count-decisions.ts";

/** The maximum weight of all leases together. A key weighs 1 for each started kilobyte of its configuration. */
const maxWeight = 10_000;
/** A call for the next lease lapses after this time, because the platform may end it without a result, in milliseconds. */
const askingMs = 2 * secondMs;
/** What is left of a lease rides on the next call of the key's guard. After this time without one, the isolate calls for it, in milliseconds. */
const silenceMs = 3500;
/** After this time, a later request watches over a key. The platform ends the work of a request 30 s after its response. */
const watchMs = 15 * secondMs;

/** A lease, and the answer that brought it. */
interface OwnLease extends HeldLease<Lease> {
  key: LoadedKey;
  admission: Admission;
  /** The units that were used beside this lease since that answer, less those that the answer counts and nobody used. */
  shift: number;
}

/** What the isolate knows of a key. `held`: the lease in use, and perhaps the next one. */
interface HeldKey {
  accountId: string;
  secretHash: string;
  /** The times of the latest requests. */
  times: readonly number[];
  held: readonly OwnLease[];
  returns: LeaseReturn[];
  /** When this isolate last asked for a lease, and last called the guard. */
  askedAt: number;
  calledAt: number;
  watchedUntil: number;
  /** The latest time that a request has seen. */
  latest: number;
  weight: number;
}

/** Runs work after the response. */
export type InBackground = (work: Promise<unknown>) => void;

/** What the holder needs beside the time of a request: the clock after an `await`, and a pause. */
interface Clock {
  now: () => Moment;
  sleep: (ms: number) => Promise<void>;
}

const ownClock: Clock = { now: thisMoment, sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };

/**
 * The leases of an isolate, by which it decides about requests without a call of their guard. Requests share them, but no request awaits the call of another one.
 * Where a method has a `now`, it is the time of the request that calls, read in the same synchronous step.
 */
export class LeaseHolder {
  readonly #keys = new Map<string, HeldKey>();
  readonly #clock: Clock;
  #weight = 0;

  constructor(clock: Clock = ownClock) {
    this.#clock = clock;
  }

  /** The number of keys that the isolate knows. */
  get size(): number {
    return this.#keys.size;
  }

  /** Decides about a request by a lease. Returns null if the guard has to decide, which includes every denial. */
  admit(keyId: string, request: AdmissionRequest, now: Moment): Admission | null {
    const known = this.#keys.get(keyId);
    if (!known) return null;
    this.#see(known, request, now);
    const own = usableFor(known, request, now);
    if (!own) return null;
    if (!request.isLook) own.unused -= request.cost;
    const { key, admission, lease, unused, shift } = own;
    const { verification } = request;
    const verified = verification && { verified: verifiedFactsOf(key.config, verification.entryId) };
    const { refusal, rateLimit, limits, secret, shared } = withUsed(admission, lease.units - unused + shift);
    return { refusal, key: key.facts, rateLimit, limits, secret, ...(shared && { shared }), ...verified };
  }

  /** Returns whether a lease would admit a request now. */
  wouldAdmit(keyId: string, request: AdmissionRequest, now: Moment): boolean {
    const known = this.#keys.get(keyId);
    return known !== undefined && usableFor(known, request, now) !== undefined;
  }

  /** Adds to a question what the guard has to know about this isolate: what is left of leases that are over, and how many requests it has seen. */
  questionTo(guards: Guards, keyId: string, request: AdmissionRequest, now: Moment): AdmissionRequest {
    const known = this.#keys.get(keyId);
    if (!known) return request;
    return this.#question(known, request, request.isLook ? 0 : wantedBy(guards, known, request, now), now);
  }

  /**
   * Takes note of a guard's answer. Returns the answer as the client sees it: the guard counts units as used that this isolate holds. `asked`: the question, with
   * the time at which this request asked.
   */
  takeAnswer(keyId: string, asked: AdmissionRequest & { at: Moment }, admission: Admission, now: Moment): Admission {
    const before = this.#keys.get(keyId);
    if (before && asked.want) before.askedAt = Number.NEGATIVE_INFINITY;
    const { lease, ...answer } = admission;
    if (before) {
      const isOutdated = ({ key }: OwnLease) => revisionOf(key.config) !== admission.revision;
      const isEnded = isOfState(admission.refusal) && before.secretHash === asked.secretHash;
      this.#end(before, (own) => isEnded || isOutdated(own));
    }
    if (admission.refusal !== null || asked.isLook) return answer;
    if (!isLeasable(asked)) {
      // A repeated verification was counted before.
      const isCounted = asked.counted && admission.verified?.entryId === asked.verification?.entryId;
      return before ? countBeside(before, before.held, answer, isCounted ? asked.cost : 0) : answer;
    }
    const known = before ?? this.#added(keyId, answer.key.accountId, asked);
    if (known.held.length === 0) known.secretHash = asked.secretHash;
    const heldBefore = known.held;
    // A lease for another secret than the one in use goes back.
    if (lease && known.secretHash !== asked.secretHash) known.returns.push({ id: lease.id, unused: lease.units });
    else if (lease) {
      countDecisions({ given: lease.units, wasted: lease.wasted });
      const key = loadedKey(lease.config);
      const own = { ...takeLease(lease, asked.at), key, admission: answer, shift: -returning(known) };
      known.held = [...known.held, own];
      this.#weigh(known, Math.ceil(JSON.stringify(lease.config).length / 1024));
      // If the answer took longer than the lease, the lease is over already.
      this.#end(known, (each) => isOver(each, now));
    }
    return countBeside(known, heldBefore, answer, asked.cost);
  }

  /** Asks for the next lease while requests use this one, and sees to it that what is left of a lease comes back after its end. */
  keep(guards: Guards, keyId: string, request: AdmissionRequest, now: Moment, inBackground: InBackground): void {
    const known = this.#keys.get(keyId);
    const last = known?.held.at(-1);
    if (!known || !last) return;
    const want = isRunningOut(last, now) ? wantedBy(guards, known, { ...request, cost: 0 }, now) : 0;
    const { secretHash, ip, scope, counted } = request;
    if (want > 0)
      inBackground(this.#renew(guards, keyId, this.#question(known, { secretHash, ip, scope, counted, cost: 0 }, want, now), now));
    if (now < known.watchedUntil && known.watchedUntil <= now + watchMs) return;
    known.watchedUntil = now + watchMs;
    inBackground(this.#watch(guards, keyId, known));
  }

  /** Ends the leases of a changed key. The next request with the key asks the guard. */
  drop(keyId: string): void {
    const known = this.#keys.get(keyId);
    if (known) this.#end(known, () => true);
  }

  /** Ends the leases of a key, and returns what is left of them, for a call that reads figures. */
  takeReturns(keyId: string): LeaseReturn[] {
    this.drop(keyId);
    return this.#keys.get(keyId)?.returns.splice(0) ?? [];
  }

  /** Ends the leases of all keys of an account, and returns what is left of them, by key. */
  takeReturnsOf(accountId: string): Record<string, LeaseReturn[]> {
    const ofAccount = [...this.#keys].filter(([, known]) => known.accountId === accountId);
    return Object.fromEntries(ofAccount.map(([keyId]) => [keyId, this.takeReturns(keyId)] as const).filter(([, { length }]) => length > 0));
  }

  /** Keeps what was not returned, because a call has failed. */
  keepReturns(keyId: string, returns: readonly LeaseReturn[]): void {
    this.#keys.get(keyId)?.returns.push(...returns);
  }

  #question(known: HeldKey, request: AdmissionRequest, want: number, now: Moment): AdmissionRequest {
    this.#end(known, (own) => isOver(own, now));
    const returns = known.returns.splice(0);
    known.calledAt = now;
    if (want > 0) known.askedAt = now;
    return { ...request, ...(want > 0 && { want }), ...(returns.length > 0 && { returns }) };
  }

  async #renew(guards: Guards, keyId: string, request: AdmissionRequest, at: Moment): Promise<void> {
    try {
      const admission = await requestAdmission(guards, keyId, request);
      const now = this.#clock.now();
      if (admission) this.takeAnswer(keyId, { ...request, at }, admission, now);
      const known = this.#keys.get(keyId);
      if (!known || known.held.length === 0 || now < known.watchedUntil) return;
      known.watchedUntil = now + watchMs;
      await this.#watch(guards, keyId, known);
    } catch {
      // The next request without a lease asks the guard itself.
    }
  }

  /** Waits until the leases of a key have ended, and then for the next call of its guard. Without one, calls the guard to return what is left. */
  async #watch(guards: Guards, keyId: string, known: HeldKey): Promise<void> {
    const endsAt = this.#clock.now() + watchMs + 2 * silenceMs;
    for (let now = this.#clock.now(); now < endsAt && (known.held.length > 0 || known.returns.length > 0); now = this.#clock.now()) {
      const [first] = known.held;
      const dueAt = first?.until ?? known.calledAt + silenceMs;
      if (now < dueAt) {
        await this.#clock.sleep(dueAt - now);
        continue;
      }
      this.#end(known, (own) => isOver(own, now));
      if (first && !first.lease.isUrgent) continue;
      known.calledAt = now;
      const returns = known.returns.splice(0);
      if (returns.length > 0) await callGuard(guards, keyId, (guard) => guard.settle(returns)).catch(() => {});
    }
    if (this.#clock.now() < endsAt) known.watchedUntil = 0;
  }

  /** Ends leases. What is left of them goes back with the next call. */
  #end(known: HeldKey, isEnded: (own: OwnLease) => boolean): void {
    const ended = known.held.filter(isEnded);
    if (ended.length === 0) return;
    known.held = known.held.filter((own) => !ended.includes(own));
    for (const { lease, unused } of ended) {
      countDecisions({ returned: unused });
      known.returns.push({ id: lease.id, unused });
      for (const later of known.held) later.shift -= unused;
    }
    if (known.held.length === 0) this.#weigh(known, 1);
  }

  /** Notes a request. */
  #see(known: HeldKey, { isLook }: AdmissionRequest, now: Moment): void {
    if (hasSteppedBack(known.latest, now)) {
      this.#end(known, () => true);
      known.latest = now;
    }
    known.latest = Math.max(known.latest, now);
    if (!isLook) known.times = seenAt(known.times, now, secondMs);
  }

  #added(keyId: string, accountId: string, { secretHash, at: now }: { secretHash: string; at: Moment }): HeldKey {
    const about = { accountId, secretHash, times: [now], held: [], returns: [] };
    const known = { ...about, askedAt: Number.NEGATIVE_INFINITY, calledAt: now, watchedUntil: 0, latest: now, weight: 0 };
    this.#keys.set(keyId, known);
    this.#weigh(known, 1);
    return known;
  }

  /** Notes the weight of a key. If all together weigh too much, forgets the oldest keys. What is left of their leases is wasted. */
  #weigh(known: HeldKey, next: number): void {
    this.#weight += next - known.weight;
    known.weight = next;
    for (const [keyId, oldest] of this.#keys) {
      if (this.#weight <= maxWeight) break;
      if (oldest === known) continue;
      this.#keys.delete(keyId);
      this.#weight -= oldest.weight;
      [oldest.held, oldest.returns, oldest.weight] = [[], [], 0];
    }
  }
}

/** The leases that all requests of an isolate share. */
export const leases = new LeaseHolder();

/** Returns whether a request may use units of a lease. A repeated verification has to ask the guard, because it may have been counted before. */
const isLeasable = ({ counted, verification }: AdmissionRequest): boolean => counted && verification?.attempt === undefined;

function usableFor({ held, secretHash }: HeldKey, request: AdmissionRequest, now: Moment): OwnLease | undefined {
  if (held.length === 0 || secretHash !== request.secretHash || !isLeasable(request)) return;
  const own = held.find((each) => isUsable(each, request.cost, now));
  return own && denialOf(own.key.config, own.key.allowed, request, now) === null ? own : undefined;
}

/** Returns how many units the isolate wants for the requests that follow. 0 if it takes no lease now. */
function wantedBy({ leaseMs = 0 }: Guards, { times, secretHash, askedAt, held }: HeldKey, request: AdmissionRequest, now: Moment): number {
  const isAsking = now >= askedAt && now < askedAt + askingMs;
  const mayAsk = leaseMs > 0 && !isAsking && held.filter((own) => !isOver(own, now)).length < 2 && request.cost <= 1 && isLeasable(request);
  return mayAsk && secretHash === request.secretHash && times.length > 1 ? times.length : 0;
}

const statesOfKeys: readonly (DenialCode | null)[] = ["invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended"];
const isOfState = (refusal: DenialCode | null): boolean => statesOfKeys.includes(refusal);

const returning = ({ returns }: HeldKey): number => returns.reduce((sum, { unused }) => sum + unused, 0);

/**
 * Returns an answer as the client sees it, beside the leases that the guard gave before it: without their units that this isolate has not used. The leases then
 * also show the `cost` of the request.
 */
function countBeside(known: HeldKey, held: readonly OwnLease[], answer: Admission, cost: number): Admission {
  const earlier = held.filter(({ admission }) => (admission.order ?? 0) < (answer.order ?? 0));
  if (earlier.length === 0) return answer;
  for (const own of earlier) own.shift += cost;
  return withUsed(answer, -earlier.reduce((sum, { unused }) => sum + unused, returning(known)));
}

function withUsed(admission: Admission, units: number): Admission {
  if (units === 0) return admission;
  const moved = <Usage extends { used: number }>(usage: Usage): Usage => ({ ...usage, used: Math.max(0, usage.used + units) });
  const shared = admission.shared && { shared: admission.shared.map(moved) };
  return { ...admission, rateLimit: moved(admission.rateLimit), limits: admission.limits.map(moved), ...shared };
}
