import { DurableObject } from "cloudflare:workers";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { objectNamed } from "../db/region.ts";
import { inBatches } from "../lib/in-batches.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import {
  type Budget,
  type BudgetUsage,
  type BudgetWindow,
  budgetAt,
  grant,
  grantOf,
  type Holder,
  holdersOf,
  mayLease,
  mergeReport,
  recallOf,
  usageOfBudget,
} from "./escrow.ts";
import type { Ask, BudgetAnswer, GuardReport, LeaseReturn } from "./holding.ts";
import type { AccountLimit } from "./limits.ts";
import { readSharedLimits, type StoredLimits } from "./shared-limits.ts";

const loadTimeoutMs = 5 * secondMs;
/** The time for which a guard that asks waits until other guards have returned units, in milliseconds. */
const reclaimMs = secondMs;
/** The same time if units are out with holders of leases. It must be shorter than the time that a guard waits. */
const maxReclaimMs = 3 * secondMs;
/** The time that one recall may take, in milliseconds. */
const recallTimeoutMs = secondMs;
/** The time for which a guard that did not answer a recall is left alone, in milliseconds. */
const unreachableMs = 5 * secondMs;
/** The time for which a lowered limit waits for the guards, in milliseconds. It must be shorter than the time that a caller waits. */
const loweringMs = 4 * secondMs;
const firstPauseMs = 50;
const recallsAtOnce = 8;
/** The reports of the guards are at most this old when the usage is read, in milliseconds. */
const reportValidMs = 2 * secondMs;

/**
 * The budget of one account: the only authority that hands out the units which the keys of the account share. The guards of the keys hold units and use them
 * without asking again (see `escrow.ts`). An account without shared limits has no budget.
 */
export class AccountBudget extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  #isErased: boolean;
  #config: StoredLimits | null;
  #budget: Budget;
  /** The guards that held units when a limit was set or lowered, and that have not returned them yet. Units that are granted later are within the new limit. */
  #toRecall: Set<string>;
  #reclaiming: Promise<void> | null = null;
  /** The guards that did not answer a recall, and the time until which they are left alone. */
  readonly #unreachable = new Map<string, number>();
  #reportedAt = Number.NEGATIVE_INFINITY;
  /** When the last lease ends that a recalled guard has given, in milliseconds since the epoch. */
  #leasedUntil = 0;
  #latest = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#isErased = this.#storage.kv.get("erased") === true;
    this.#config = this.#storage.kv.get<StoredLimits>("config") ?? null;
    this.#toRecall = new Set(this.#storage.kv.get<string[]>("recalls"));
    this.#storage.sql.exec("CREATE TABLE IF NOT EXISTS holders (key_id TEXT PRIMARY KEY, holder TEXT NOT NULL) WITHOUT ROWID");
    const rows = [...this.#storage.sql.exec<{ key_id: string; holder: string }>("SELECT key_id, holder FROM holders")];
    this.#budget = {
      limits: this.#config?.limits ?? [],
      windows: this.#storage.kv.get<BudgetWindow[]>("windows") ?? [],
      holders: new Map(rows.map(({ key_id, holder }) => [key_id, JSON.parse(holder) as Holder])),
    };
  }

  /**
   * Applies the limits of the account, unless the same or newer limits are already active. If a limit is new or lower than before, recalls the units of all
   * guards first. Returns the active limits. `isActive` is false if a guard could not be reached: it may then still use units of the earlier limits.
   */
  async configure(config: StoredLimits): Promise<{ config: StoredLimits; isActive: boolean }> {
    if (this.#isErased) return { config, isActive: true };
    if (this.#config === null || config.version > this.#config.version) this.#apply(config);
    if (this.#toRecall.size > 0) await this.#finishRecalls();
    return { config: this.#config ?? config, isActive: this.#toRecall.size === 0 };
  }

  /** Returns the active limits, or null if the account never had limits of its own. */
  configuration(): StoredLimits | null {
    return this.#config;
  }

  /** Hands units to a guard. Returns null if the guard has to begin again: its message is of an earlier incarnation, or there is no such account. */
  async ask(keyId: string, question: Ask): Promise<BudgetAnswer | null> {
    // A guard can know newer limits, if the call that sets them was interrupted. The limits in D1 are then newer, too.
    const isBehind = this.#config === null || this.#config.version < question.version;
    const config = isBehind ? await this.#load() : this.#config;
    const reported = config && this.#reported(keyId, question);
    if (!config || !reported) return null;
    const startedAt = Date.now();
    let endsAt = startedAt + reclaimMs;
    let isEnough = this.#grant(reported, keyId, question);
    while (!isEnough && Date.now() < endsAt && this.#mayHold(keyId).length > 0) {
      this.#reclaiming ??= this.#reclaim(keyId, question, endsAt).finally(() => {
        this.#reclaiming = null;
      });
      await this.#reclaiming;
      isEnough = this.#grant(budgetAt(this.#budget, this.#now()), keyId, question);
      if (isEnough) break;
      // What is left of a lease comes back when the lease has ended, and often earlier.
      endsAt = Math.min(Math.max(endsAt, this.#leasedUntil), startedAt + maxReclaimMs);
      await wait(firstPauseMs);
    }
    return {
      config: this.#config ?? config,
      grant: grantOf(this.#budget, keyId),
      isEnough,
      mayLease: mayLease(this.#budget),
      isLeasedOut: this.#isLeasedOut,
    };
  }

  /** Takes note of what a guard reports. A guard also calls it when it returns units without being asked. */
  mergeReport(keyId: string, report: GuardReport): void {
    const reported = this.#reported(keyId, report);
    if (reported) this.#setBudget(reported);
  }

  /**
   * Returns what is used of each limit. Asks the guards that hold units, unless they were asked a moment ago. `returns`: what is left of the caller's leases, by
   * key. Their guards are always asked.
   */
  async usage(
    returns: Readonly<Record<string, readonly LeaseReturn[]>> = {},
  ): Promise<{ config: StoredLimits; usage: BudgetUsage[] } | null> {
    const config = this.#config ?? (await this.#load());
    if (!config) return null;
    this.#setBudget(budgetAt(this.#budget, this.#now()));
    const isOld = this.#now() >= this.#reportedAt + reportValidMs;
    if (isOld) this.#reportedAt = this.#now();
    const asked = new Set([...Object.keys(returns), ...(isOld ? holdersOf(this.#budget) : [])]);
    await Promise.all([...asked].map((keyId) => this.#call(keyId, (guard) => guard.unitsUsed(returns[keyId]))));
    return { config, usage: usageOfBudget(this.#budget) };
  }

  /** Permanently deletes the budget of an erased account. */
  async erase(): Promise<void> {
    this.#isErased = true;
    this.#config = null;
    this.#budget = { limits: [], windows: [], holders: new Map() };
    await this.#storage.deleteAll();
    this.#storage.kv.put("erased", true);
  }

  get #isLeasedOut(): boolean {
    return this.#now() < this.#leasedUntil;
  }

  #apply(config: StoredLimits): void {
    const known = this.#config;
    const isRaised = config.limits.every(({ per, limit }) => limit >= (limitIn(known, per) ?? Number.POSITIVE_INFINITY));
    this.#config = config;
    this.#storage.kv.put("config", config);
    this.#setBudget(budgetAt({ ...this.#budget, limits: config.limits }, this.#now()));
    this.#unreachable.clear();
    if (isRaised) return;
    for (const id of holdersOf(this.#budget)) this.#toRecall.add(id);
    this.#storage.kv.put("recalls", [...this.#toRecall]);
  }

  async #load(): Promise<StoredLimits | null> {
    if (this.#isErased) return null;
    const read = readSharedLimits(connect(this.env.DB), this.ctx.id.name ?? "");
    const config = await withDeadline(read, loadTimeoutMs, "Reading an account from D1");
    if (config && config.version > (this.#config?.version ?? -1) && !this.#isErased) this.#apply(config);
    return this.#config;
  }

  /** Returns the budget after a message of a guard, or null if the message has no effect. */
  #reported(keyId: string, report: GuardReport): Budget | null {
    if (this.#isErased) return null;
    this.#unreachable.delete(keyId);
    return mergeReport(budgetAt(this.#budget, this.#now()), keyId, report);
  }

  /** Grants units. The platform sends the answer only after the grant is on disk. Returns whether the guard got what it needs. */
  #grant(budget: Budget, keyId: string, question: Ask): boolean {
    const granted = grant(budget, keyId, question);
    this.#setBudget(granted?.budget ?? budget);
    return granted !== null;
  }

  /** Returns the guards that may hold unused units and can be reached, the guard with the most first. */
  #mayHold(except: string): string[] {
    return holdersOf(this.#budget, except).filter((id) => this.#now() >= (this.#unreachable.get(id) ?? 0));
  }

  /** Recalls units of other guards, some guards at a time, until the question can be answered. */
  async #reclaim(keyId: string, question: Ask, endsAt: number): Promise<void> {
    for (const ids of inBatches(this.#mayHold(keyId), recallsAtOnce)) {
      if (Date.now() >= endsAt || grant(budgetAt(this.#budget, this.#now()), keyId, question)) return;
      await Promise.all(ids.map((id) => this.#recall(id)));
    }
  }

  /** Recalls the units that guards held before a limit was set or lowered. Guards that do not answer stay in the list. */
  async #finishRecalls(): Promise<void> {
    const endsAt = Date.now() + loweringMs;
    for (let pause = firstPauseMs; this.#toRecall.size > 0 && Date.now() < endsAt; pause *= 2) {
      const ids = [...this.#toRecall];
      const reported = await Promise.all(ids.map((id) => this.#recall(id)));
      ids.forEach((id, at) => {
        if (reported[at]) this.#toRecall.delete(id);
      });
      if (this.#toRecall.size > 0) await wait(pause);
    }
    this.#storage.kv.put("recalls", [...this.#toRecall]);
  }

  /** Recalls the units of a guard. Returns whether the guard has answered. */
  async #recall(id: string): Promise<boolean> {
    const recall = recallOf(this.#budget, id);
    if (recall === null) return true;
    return this.#call(id, async (guard) => {
      const { leasedForMs, ...report } = await guard.recall(recall);
      this.#leasedUntil = Math.max(this.#leasedUntil, this.#now() + (leasedForMs ?? 0));
      return report;
    });
  }

  /**
   * Calls a guard and takes note of what it says. Returns whether the guard has answered. When units are reclaimed, a guard that has not answered is left alone
   * for a time.
   */
  async #call(
    id: string,
    ask: (guard: Env["KEY_GUARD"] extends DurableObjectNamespace<infer Guard> ? DurableObjectStub<Guard> : never) => Promise<GuardReport>,
  ): Promise<boolean> {
    // A call to an object that has just been restarted fails. The second call reaches it.
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        this.mergeReport(
          id,
          await withDeadline(ask(objectNamed(this.env.KEY_GUARD, id, this.env)), recallTimeoutMs, "Asking a guard for its units"),
        );
        return true;
      } catch (error) {
        if (attempt === 1) console.error("a budget cannot reach a guard:", messagesOf(error));
      }
    }
    this.#unreachable.set(id, this.#now() + unreachableMs);
    return false;
  }

  /** Stores what has changed. */
  #setBudget(next: Budget): void {
    const before = this.#budget;
    if (next === before) return;
    this.#budget = next;
    if (next.windows !== before.windows) this.#storage.kv.put("windows", [...next.windows]);
    if (next.holders === before.holders) return;
    for (const [id, holder] of next.holders)
      if (holder !== before.holders.get(id))
        this.#storage.sql.exec("INSERT OR REPLACE INTO holders VALUES (?, ?)", id, JSON.stringify(holder));
    for (const id of before.holders.keys()) if (!next.holders.has(id)) this.#storage.sql.exec("DELETE FROM holders WHERE key_id = ?", id);
  }

  #now(): number {
    this.#latest = Math.max(this.#latest, Date.now());
    return this.#latest;
  }
}

const limitIn = (config: StoredLimits | null, per: AccountLimit["per"]): number | undefined =>
  config?.limits.find((each) => each.per === per)?.limit;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
