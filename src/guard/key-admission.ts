import type { LeaseReturn } from "../budget/holding.ts";
import type { LimitUsage, SharedUsage } from "../budget/limits.ts";
import type { StoredLimits } from "../budget/shared-limits.ts";
import { secondMs } from "../lib/time/clock.ts";
import { Attempts } from "./attempts.ts";
import {
  type Admission,
  type AdmissionRequest,
  denialOf,
  type KeyConfig,
  type RateLimit,
  revisionOf,
  verifiedFactsOf,
} from "./decision.ts";
import { KeyCounts, type Own } from "./key-counts.ts";
import { type LoadedKey, loadedKey } from "./loaded-key.ts";
import { type TemporarySecret, temporarySecretOf, withTemporarySecret } from "./temporary-secrets.ts";

/** A request that finds the guard full while leases are out waits for at most this time, in milliseconds. The caller of a verification waits less. */
const maxPatienceMs = { own: 2500, verification: 500 };
const patienceStepMs = 50;
/** The time after its end in which what is left of a lease comes back, near the end of a limit, in milliseconds. */
const returnMs = 500;
/** The maximum number of requests that wait for leases to end. */
const maxPatient = 100;
/** The time for which a request waits for units of the account, in milliseconds. It is shorter than the time that the Worker waits for the guard. */
const unitsTimeoutMs = 4 * secondMs;

/** What the decisions need of the object. `load`: reads the configuration from D1, and applies it. */
interface Deciding extends Own {
  load: () => Promise<void>;
  sleep: (ms: number) => Promise<void>;
}

/** The active configuration of a guard. `outdatedForMs`: the time until the last lease of an earlier one has ended, in milliseconds. */
export type Configured = KeyConfig & { outdatedForMs: number };

/** Decides on the requests of a key by its active configuration. `KeyGuard` says what its methods do. */
export class KeyAdmission {
  readonly counts: KeyCounts;
  readonly #own: Deciding;
  readonly #attempts = new Attempts();
  #key: LoadedKey | null;
  #isErased: boolean;
  #temporary: TemporarySecret[];
  #patient = 0;
  #order = 0;

  constructor(own: Deciding) {
    this.#own = own;
    this.#isErased = own.kv.get("erased") === true;
    this.#temporary = own.kv.get<TemporarySecret[]>("temporary") ?? [];
    const config = own.kv.get<KeyConfig>("config");
    this.#key = config ? loadedKey(config) : null;
    this.counts = new KeyCounts(own, config);
  }

  get isErased(): boolean {
    return this.#isErased;
  }

  async key(): Promise<LoadedKey | null> {
    if (!this.#key && !this.#isErased) await this.#own.load();
    return this.#key;
  }

  /**
   * Decides on one request. The decision and the counting of the request happen in one synchronous step. If the guard has too few units of the account, it
   * asks the account's budget, and decides again. Returns null if no such key exists.
   */
  async admit(request: AdmissionRequest): Promise<Admission | null> {
    const key = await this.key();
    const own = key && temporarySecretOf(this.#temporary, key.config, request, this.#own.now());
    if (!own) return this.#admit(request);
    // No holder of leases, and no process that goes on with what it knew, lets a temporary secret live longer.
    const made = await this.#admit({ ...request, secretHash: own.standsFor, want: undefined });
    return made && { ...made, key: { ...made.key, expiresAt: Math.min(own.until, made.key.expiresAt ?? own.until) } };
  }

  async #admit(request: AdmissionRequest): Promise<Admission | null> {
    let key = await this.key();
    const { now } = this.#own;
    const giveUpAt = now() + unitsTimeoutMs;
    const askedBefore = this.counts.units.asked;
    let isAnswered = false;
    while (key) {
      this.counts.settle(request.returns ?? [], now(), key);
      const admission = this.#decide(key, request, now(), isAnswered);
      if (admission !== null) return this.#isLeasedOut(admission, request) ? this.#admitLater(request, admission) : admission;
      if (now() > giveUpAt) throw new Error("the budget of the account has handed all units to other requests");
      try {
        const { config, question } = await this.counts.units.ask(key.shared, request.cost, now());
        this.#takeOver(config);
        isAnswered = question > askedBefore;
      } catch (error) {
        // Without the budget, a request can still be refused by the limits of its key.
        const refused = this.counts.refuse(key, request.cost, now());
        if (refused === null) throw error;
        return this.#admissionOf(key, request, refused, now());
      }
      key = this.#key;
    }
    return null;
  }

  configure(config: KeyConfig): Configured {
    const active = this.#isErased ? { ...config, ...revoked } : this.#configured(config);
    return { ...active, outdatedForMs: this.outdatedForMs() };
  }

  async addTemporarySecret(more: Omit<TemporarySecret, "standsFor">): Promise<void> {
    const standsFor = (await this.key())?.config.secretHash;
    if (standsFor !== undefined) this.#keepTemporary(withTemporarySecret(this.#temporary, { ...more, standsFor }, this.#own.now()));
  }

  endTemporarySecrets(which: string): void {
    const left = this.#temporary.filter(({ secretHash, memberId }) => secretHash !== which && memberId !== which);
    if (left.length < this.#temporary.length) this.#keepTemporary(left);
  }

  /** Changes the active configuration, and raises its version above any version that a restored row can have. Does nothing if no such key exists. */
  change(changes: (known: KeyConfig) => Partial<KeyConfig> | null): number {
    const known = this.#key?.config;
    const changed = known && changes(known);
    if (changed) this.#apply({ ...known, ...changed, version: known.version + 1 });
    return this.outdatedForMs();
  }

  settle(returns: readonly LeaseReturn[]): void {
    this.counts.settle(returns, this.#own.now(), this.#key);
  }

  outdatedForMs(): number {
    return this.counts.outdatedForMs(this.#own.now());
  }

  async usage(): Promise<(RateLimit & { limits: LimitUsage[]; shared: SharedUsage[] }) | null> {
    const key = await this.key();
    if (!key) return null;
    const usage = this.counts.usage(key, this.#own.now());
    return { ...hourOf(usage.limits), ...usage };
  }

  /** Forgets the key. No request is admitted anymore. Returns the counts that have to stay on disk. */
  erase(): ReturnType<KeyCounts["erase"]> {
    this.#isErased = true;
    this.#key = null;
    return this.counts.erase();
  }

  /** Returns null if the guard first has to ask for units. `isAnswered`: the budget has answered a question that was sent after the request has arrived. */
  #decide(key: LoadedKey, request: AdmissionRequest, now: number, isAnswered: boolean): Admission | null {
    const { config, allowed } = key;
    const denied = denialOf(config, allowed, request, now);
    if (denied !== null || !request.counted) return this.#admissionOf(key, request, { refusal: denied }, now);
    if (request.isLook) {
      // While leases are out, only the decision itself can tell whether there is room.
      const refused = this.counts.leasedForMs(now) > 0 ? null : this.counts.refuse(key, request.cost, now);
      return this.#admissionOf(key, request, refused ?? { refusal: null }, now);
    }
    const { attempt, entryId = "" } = request.verification ?? {};
    this.#attempts.expire(now);
    const earlier = attempt && this.#attempts.find(attempt.id, now);
    if (earlier) {
      const refusal = earlier.about === attempt.about ? null : "conflict";
      return this.#admissionOf(key, request, { refusal }, now, refusal === null ? earlier.entryId : entryId);
    }
    const decision = request.cost === 0 ? { refusal: null } : this.counts.count(key, request.cost, now, isAnswered);
    if (attempt && decision?.refusal === null)
      this.#attempts.add(config.accountId, attempt.id, { about: attempt.about, entryId, countedAt: now });
    if (decision === null) return null;
    const admission = this.#admissionOf(key, request, decision, now);
    const lease = admission.refusal === null && request.cost <= 1 ? this.counts.lease(key, request, now) : null;
    this.counts.store();
    return lease ? { ...admission, lease } : admission;
  }

  #isLeasedOut({ refusal }: Admission, { cost, isLook = false }: AdmissionRequest): boolean {
    return refusal === "rate_limit_exceeded" && cost > 0 && !isLook && this.counts.leasedForMs(this.#own.now()) > 0;
  }

  /** Decides on a request again when units come back from holders of leases, or when the leases have ended. `denied`: the denial if that is too late. */
  async #admitLater(request: AdmissionRequest, denied: Admission): Promise<Admission | null> {
    const { now, sleep } = this.#own;
    const patienceMs = request.verification ? maxPatienceMs.verification : maxPatienceMs.own;
    const giveUpAt = now() + Math.min(patienceMs, this.counts.leasedForMs(now()));
    if (this.#patient < maxPatient) {
      this.#patient++;
      try {
        while (now() < giveUpAt) {
          await sleep(Math.min(patienceStepMs, giveUpAt - now()));
          const again = this.#key && this.#decide(this.#key, request, now(), false);
          if (again && !this.#isLeasedOut(again, request)) return again;
        }
      } finally {
        this.#patient--;
      }
    }
    const { violation } = denied;
    const roomFrom = now() + Math.max(secondMs, this.counts.leasedForMs(now()) + returnMs);
    return violation ? { ...denied, violation: { ...violation, roomFrom, isLeasedOut: true } } : denied;
  }

  #admissionOf(
    { config, facts, limits, shared }: LoadedKey,
    { secretHash, verification }: AdmissionRequest,
    decision: Pick<Admission, "refusal" | "violation">,
    now: number,
    entryId = verification?.entryId ?? "",
  ): Admission {
    const secret = secretHash === config.secretHash ? "current" : "previous";
    const used = this.counts.used(limits, now);
    // A guard that restarts goes on with larger numbers.
    this.#order = Math.max(this.#order + 1, now * 1000);
    const about = { secret, revision: revisionOf(config), order: this.#order } as const;
    const admission: Admission = { ...decision, key: facts, rateLimit: hourOf(used), limits: used, ...about };
    if (verification) admission.verified = verifiedFactsOf(config, entryId);
    if (shared.limits.length > 0) admission.shared = this.counts.units.usage(shared, now);
    return admission;
  }

  #keepTemporary(temporary: TemporarySecret[]): void {
    this.#temporary = temporary;
    this.#own.kv.put("temporary", temporary);
  }

  #configured(config: KeyConfig): KeyConfig {
    const known = this.#key?.config;
    if (!known) return this.#apply(config);
    const isNewer = config.version > known.version;
    const newest = isNewer ? (known.state === "revoked" ? { ...config, ...revoked } : config) : known;
    const ofAccount = config.accountVersion > known.accountVersion ? config : known;
    if (newest === known && ofAccount === known) return known;
    return this.#apply({ ...newest, ...accountPart(ofAccount) });
  }

  #apply(config: KeyConfig): KeyConfig {
    this.#own.kv.put("config", config);
    this.#key = loadedKey(config);
    this.counts.outdateLeases();
    this.counts.units.forgetRefusal();
    if (config.state !== "active") this.counts.units.giveBack(config.accountId);
    return config;
  }

  /** Takes over the limits of the account that its budget knows. */
  #takeOver({ version, revision, limits }: StoredLimits): void {
    const known = this.#key?.config;
    if (!known || version === known.accountVersion) return;
    if (version < known.accountVersion) throw new Error("the budget of the account does not know the active limits");
    this.#apply({ ...known, accountVersion: version, accountRevision: revision, accountLimits: limits });
  }
}

const accountPart = ({ accountVersion, accountRevision, accountLimits }: KeyConfig) => ({ accountVersion, accountRevision, accountLimits });

export const revoked = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;

/** Returns what is used of the hour. */
function hourOf(limits: readonly LimitUsage[]): RateLimit {
  const hour = limits.find(({ per }) => per === "hour");
  if (!hour) throw new Error("a key has no limit of the hour");
  return { limit: hour.limit, used: hour.used, resetsAt: hour.resetsAt };
}
