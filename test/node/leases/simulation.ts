import { LeaseHolder } from "../../../src/admission/lease-holder.ts";
import { type Budget, budgetAt, grant, grantOf, holdersOf, mayLease, mergeReport, recallOf } from "../../../src/budget/escrow.ts";
import type { Ask, BudgetAnswer, LeaseReturn } from "../../../src/budget/holding.ts";
import { type AccountLimit, endOf, type Limit, startOf } from "../../../src/budget/limits.ts";
import type { Admission, AdmissionRequest, KeyConfig } from "../../../src/guard/decision.ts";
import type { Guards } from "../../../src/guard/guards.ts";
import { type Configured, KeyAdmission } from "../../../src/guard/key-admission.ts";
import { processLeaseMs } from "../../../src/guard/lease-setting.ts";
import { hourMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { Moment } from "../../../src/lib/time/moment.ts";
import { World } from "./world.ts";

// Simulates the guards of an account's keys, the account's budget, and isolates that hold leases. The code of the product runs with a time, a disk and a
// network of the simulation. Messages are lost and late, guards crash at any write, and clocks are off and step.

/** Mistakes that can be planted in what the simulation passes on. Those in the rules themselves are planted by `lease.test.ts`. */
export type Mistake = "noWait" | "noMark" | "fromAnswer" | "longer" | "reserveLess" | "otherClock";

export interface Setup {
  seed: number;
  keys: number;
  holders: number;
  limits: readonly Limit[];
  shared: readonly AccountLimit[];
  /** Requests per second, over all keys and holders. */
  rate: number;
  durationMs: number;
  faults: boolean;
  changes: number;
  cost: number;
  leaseMs: number;
  roundTripMs?: number;
  /** When the schedule begins, before the end of an hour. At any time if it is absent. */
  beforeHourMs?: number;
  mistake?: Mistake | undefined;
}

export interface Outcome {
  /** What must not happen, and did. */
  violations: string[];
  admitted: number;
  near: number;
  calls: number;
  writes: number;
  requests: number;
  /** How long the changes took, in milliseconds. */
  waits: number[];
  /** The units that the guards count in the last window of the hour, and nobody used. */
  stranded: number;
  /** What admitted requests were told is used of the hour. */
  shown: number[];
}

interface Change {
  key: number;
  kind: "revoke" | "lower" | "expire";
  limit: number;
  expiresAt: number;
  returnedAt: number | null;
  /** How many units of its window were used when the change returned. */
  usedBefore: number;
  window: number;
  isLatest: boolean;
}

class Crash extends Error {}

const account = "acc_1";
export const secretHash = "s".repeat(64);
export const configOf = (limits: readonly Limit[], shared: readonly AccountLimit[]): KeyConfig => ({
  version: 1,
  revision: "1",
  accountId: account,
  accountName: "Acme",
  logWriter: "A0",
  name: "Key",
  externalId: null,
  metadata: "{}",
  accountExternalId: null,
  accountMetadata: "{}",
  state: "active",
  scopes: [],
  hourlyLimit: limits.find(({ per }) => per === "hour")?.limit ?? 5000,
  otherLimits: limits.filter(({ per }) => per !== "hour"),
  allowedIps: [],
  expiresAt: null,
  secretHash,
  last4: "last",
  previousSecretHash: null,
  overlapEndsAt: null,
  suspendedAt: null,
  accountVersion: 1,
  accountRevision: "1",
  accountLimits: [...shared],
});

/** A guard with its disk. Each life of it may run on another machine, with another clock. */
class Guard {
  life = 0;
  writes = 0;
  offset: number;
  admission: KeyAdmission;
  readonly #disk = new Map<string, unknown>();
  readonly #world: World;
  readonly #setup: Setup;
  readonly #budget: AccountUnitsBudget;
  readonly keyId: string;

  constructor(world: World, setup: Setup, keyId: string, budget: AccountUnitsBudget, config: KeyConfig) {
    [this.#world, this.#setup, this.keyId, this.#budget] = [world, setup, keyId, budget];
    this.offset = setup.faults ? world.between(-1000, 1000) : 0;
    this.#disk.set("config", config);
    this.admission = this.#born();
  }

  clock(): number {
    return this.#world.now + this.offset;
  }

  restart(): void {
    this.life++;
    if (this.#setup.faults) this.offset = this.#world.between(-1500, 1500);
    this.admission = this.#born();
  }

  #born(): KeyAdmission {
    const { life } = this;
    let latest = 0;
    const put = (name: string, value: unknown) => {
      if (life !== this.life) throw new Crash();
      this.writes++;
      const crashesBefore = this.#setup.faults && this.#world.chance(0.005);
      if (!crashesBefore) this.#disk.set(name, this.#written(name, structuredClone(value)));
      if (crashesBefore || (this.#setup.faults && this.#world.chance(0.005))) {
        this.restart();
        throw new Crash();
      }
    };
    return new KeyAdmission({
      keyId: this.keyId,
      kv: { get: (name: string) => structuredClone(this.#disk.get(name)) as never, put },
      budgets: {
        getByName: () => ({ ask: (id: string, question: Ask) => this.#budget.ask(id, question), mergeReport: async () => {} }),
      } as never,
      events: { addDue: () => false },
      leaseMs: this.#setup.leaseMs,
      now: () => {
        latest = Math.max(latest, this.clock());
        return latest;
      },
      sleep: (ms) => this.#world.sleep(ms),
      load: async () => {},
      setAlarmBy: () => {},
      inBackground: (work) => void work.catch(() => {}),
    });
  }

  /** Plants the mistakes about what is stored. */
  #written(name: string, value: unknown): unknown {
    if (name !== "window") return value;
    const stored = value as { leases?: unknown; fixed: [string, number, number][] };
    if (this.#setup.mistake === "noMark") delete stored.leases;
    if (this.#setup.mistake === "reserveLess") for (const window of stored.fixed) window[2] = Math.max(0, window[2] - 64);
    return stored;
  }
}

/** The budget of the account: the rules of `escrow.ts`, and the calls of `account-budget.ts`. */
class AccountUnitsBudget {
  guards: Guard[] = [];
  readonly #world: World;
  readonly #setup: Setup;
  readonly #delay: () => number;
  #budget: Budget;

  constructor(world: World, setup: Setup, delay: () => number) {
    [this.#world, this.#setup, this.#delay] = [world, setup, delay];
    this.#budget = { limits: setup.shared, windows: [], holders: new Map() };
  }

  async ask(keyId: string, question: Ask): Promise<BudgetAnswer | null> {
    await this.#world.sleep(this.#delay());
    if (this.#setup.faults && this.#world.chance(0.02)) throw new Error("lost");
    const reported = mergeReport(budgetAt(this.#budget, this.#world.now), keyId, question);
    if (!reported) return null;
    this.#budget = reported;
    let [isEnough, leasedUntil] = [this.#grant(keyId, question), 0];
    const startedAt = this.#world.now;
    for (let endsAt = startedAt + secondMs; !isEnough && this.#world.now < endsAt; ) {
      for (const id of holdersOf(this.#budget, keyId)) leasedUntil = Math.max(leasedUntil, await this.#recall(id));
      isEnough = this.#grant(keyId, question);
      if (isEnough) break;
      endsAt = Math.min(Math.max(endsAt, leasedUntil), startedAt + 3 * secondMs);
      await this.#world.sleep(50);
    }
    await this.#world.sleep(this.#delay());
    const config = { version: 1, revision: "1", limits: [...this.#setup.shared] };
    const isLeasedOut = this.#world.now < leasedUntil;
    return { config, grant: grantOf(this.#budget, keyId), isEnough, mayLease: mayLease(this.#budget), isLeasedOut };
  }

  #grant(keyId: string, question: Ask): boolean {
    const granted = grant(budgetAt(this.#budget, this.#world.now), keyId, question);
    if (granted) this.#budget = granted.budget;
    return granted !== null;
  }

  /** Returns until when units of the guard are out with holders. */
  async #recall(keyId: string): Promise<number> {
    await this.#world.sleep(this.#delay());
    const guard = this.guards.find((each) => each.keyId === keyId);
    const recall = recallOf(this.#budget, keyId);
    if (!guard || !recall) return 0;
    try {
      const { counts } = guard.admission;
      counts.settle([], guard.clock());
      const leasedForMs = counts.leasedForMs(guard.clock());
      this.#budget = mergeReport(budgetAt(this.#budget, this.#world.now), keyId, counts.units.recall(recall)) ?? this.#budget;
      return this.#world.now + leasedForMs;
    } catch (error) {
      if (error instanceof Crash) return 0;
      throw error;
    }
  }
}

/** Returns an answer with the windows of the account in which the guard has counted. Near their end, its clock and the budget's can differ. */
function withWindowsOf({ counts }: KeyAdmission, answer: Admission | null): Admission | null {
  const ends = new Map(counts.units.stored?.shares.map((share) => [share.per, endOf(share)]));
  const shared = answer?.shared?.map((usage) => ({ ...usage, resetsAt: ends.get(usage.per) ?? usage.resetsAt }));
  return answer && (shared ? { ...answer, shared } : answer);
}

/** Plays one schedule. */
export async function simulate(setup: Setup): Promise<Outcome> {
  const begin = 10 * hourMs;
  const world = new World(setup.seed, begin);
  const { faults, mistake } = setup;
  world.now =
    setup.beforeHourMs !== undefined
      ? begin + hourMs - setup.beforeHourMs
      : begin + (faults && world.chance(0.3) ? hourMs - world.between(1000, 15_000) : world.between(0, hourMs - 300_000));
  const startedAt = world.now;
  const outcome: Outcome = { violations: [], admitted: 0, near: 0, calls: 0, writes: 0, requests: 0, waits: [], stranded: 0, shown: [] };
  const delay = () =>
    setup.roundTripMs !== undefined
      ? setup.roundTripMs / 2
      : faults && world.chance(0.05)
        ? world.between(200, 3000)
        : world.between(1, faults ? 60 : 40);
  const budget = new AccountUnitsBudget(world, setup, delay);
  const rows = Array.from({ length: setup.keys }, () => configOf(setup.limits, setup.shared));
  const guards = rows.map((row, index) => new Guard(world, setup, `key_${index}`, budget, row));
  budget.guards = guards;
  const changes: Change[] = [];
  let slowest = Math.min(0, ...guards.map(({ offset }) => offset));

  /** The units used in each window of a key, and of the account. */
  const used = new Map<string, number>();
  const windowsOf = (key: number, admission: Admission) => [
    ...setup.limits.map(({ per, limit }) => ({ name: `${key} ${per}`, limit, per, usages: admission.limits })),
    ...setup.shared.map(({ per, limit }) => ({ name: `account ${per}`, limit, per, usages: admission.shared ?? [] })),
  ];
  const count = (key: number, begunAt: number, by: string, admission: Admission, cost: number) => {
    outcome.admitted += cost;
    outcome.shown.push(admission.rateLimit.used);
    for (const { name, limit, per, usages } of windowsOf(key, admission)) {
      const window = usages.find((each) => each.per === per)?.resetsAt ?? 0;
      const units = (used.get(`${name} ${window}`) ?? 0) + cost;
      used.set(`${name} ${window}`, units);
      if (units > limit) outcome.violations.push(`${units} of ${limit} units in a window of ${name}, by ${by}`);
      if (world.now + slowest >= window + 1500 && by !== "the guard") outcome.violations.push("a unit after the end of its window");
    }
    const hour = admission.rateLimit.resetsAt;
    const ofHour = used.get(`${key} hour ${hour}`) ?? 0;
    for (const change of changes) {
      if (change.key !== key || change.returnedAt === null || begunAt < change.returnedAt) continue;
      const late = `${Math.round(begunAt - change.returnedAt)} ms after the change returned, by ${by}`;
      if (change.kind === "revoke") outcome.violations.push(`admitted ${late}`);
      if (change.kind === "lower" && change.isLatest && hour === change.window && ofHour > Math.max(change.limit, change.usedBefore))
        outcome.violations.push(`over the lowered limit ${late}`);
      if (change.kind === "expire" && change.isLatest && begunAt + slowest >= change.expiresAt + 500)
        outcome.violations.push(`admitted after its expiry ${late}`);
    }
  };

  /** Sends a message to a guard. Some get lost, and some arrive twice. */
  const send = <Answer>(guard: Guard, act: (admission: KeyAdmission) => Answer | Promise<Answer>): Promise<Answer> =>
    new Promise((resolve, reject) => {
      outcome.calls++;
      const fail = () => world.after(4 * secondMs, () => reject(new Error("lost")));
      const isLost = faults && world.chance(0.02);
      if (isLost && world.chance(0.5)) return fail();
      world.after(delay(), async () => {
        const { life } = guard;
        try {
          const answer = await act(guard.admission);
          slowest = Math.min(slowest, guard.offset);
          if (isLost || guard.life !== life) fail();
          else world.after(delay(), () => resolve(answer));
        } catch (error) {
          // A guard whose budget does not answer is busy. Everything else is a mistake of the code.
          if (error instanceof TypeError || error instanceof RangeError) outcome.violations.push(String(error));
          fail();
        }
      });
    });
  /** The guards as a holder calls them. `leaseMs`: how long a lease may last, if the holder is a process of the team. */
  const stubsFor = (leaseMs?: number): Guards => ({
    leaseMs: setup.leaseMs,
    isBounded: true,
    getByName: ((keyId: string) => {
      const guard = guards.find((each) => each.keyId === keyId) as Guard;
      return {
        admit: (request: AdmissionRequest) =>
          send(guard, async (admission) => {
            const answer = withWindowsOf(admission, await admission.admit({ ...request, leaseMs }));
            return mistake === "longer" && answer?.lease
              ? { ...answer, lease: { ...answer.lease, forMs: 2 * answer.lease.forMs } }
              : answer;
          }),
        settle: (returns: readonly LeaseReturn[]) => send(guard, ({ counts }) => counts.settle(returns, guard.clock())),
      };
    }) as never,
  });

  /** An isolate. On Cloudflare, each request has a clock of its own. */
  const isolates = Array.from({ length: setup.holders }, () => {
    const stubs = stubsFor(faults && world.chance(0.3) ? processLeaseMs : undefined);
    const isolate = { offset: faults ? world.between(-3000, 3000) : 0, former: 0, leases: undefined as unknown as LeaseHolder };
    const clock = () => (world.now + isolate.offset) as Moment;
    const sleep = (ms: number) => (faults && world.chance(0.3) ? new Promise<void>(() => {}) : world.sleep(ms));
    isolate.leases = new LeaseHolder({ now: clock, sleep });
    return { isolate, clock, stubs, born: () => (isolate.leases = new LeaseHolder({ now: clock, sleep })) };
  });
  const requestBy = async ({ isolate, clock, stubs }: (typeof isolates)[number], key: number, cost: number) => {
    outcome.requests++;
    const { leases } = isolate;
    const [begunAt, keyId] = [world.now, `key_${key}`];
    const now = clock();
    const decidedAt = (mistake === "otherClock" && isolate.former > 0 ? isolate.former : now) as Moment;
    isolate.former = now;
    const request = { secretHash, ip: "", scope: null, counted: true, cost };
    const inBackground = (work: Promise<unknown>) => void work.catch(() => {});
    const near = leases.admit(keyId, request, decidedAt);
    if (near) {
      outcome.near++;
      count(key, begunAt, "a lease", near, cost);
      return leases.keep(stubs, keyId, request, now, inBackground);
    }
    const question = leases.questionTo(stubs, keyId, request, now);
    const answer = await (stubs.getByName(keyId) as unknown as KeyAdmission).admit(question).catch(() => null);
    if (!answer) return;
    const at = mistake === "fromAnswer" ? clock() : now;
    const admission = leases.takeAnswer(keyId, { ...question, at }, answer, clock());
    if (admission.refusal === null) count(key, begunAt, "the guard", admission, cost);
    leases.keep(stubs, keyId, request, clock(), inBackground);
  };

  for (let at = 0; at < setup.durationMs; at += (-Math.log(1 - world.random()) * secondMs) / setup.rate) {
    const isolate = world.pick(isolates);
    const [key, cost] = [Math.floor(world.random() * setup.keys), world.chance(0.1) ? setup.cost : 1];
    world.after(at, () => void requestBy(isolate, key, cost));
  }
  if (faults) {
    for (let n = 0; n < 3; n++) world.after(world.between(0, setup.durationMs), () => world.pick(guards).restart());
    for (let n = 0; n < 2; n++) world.after(world.between(0, setup.durationMs), () => world.pick(isolates).born());
    for (let n = 0; n < 3; n++)
      world.after(world.between(0, setup.durationMs), () => {
        world.pick(isolates).isolate.offset += world.between(-100, 100);
      });
  }
  for (let n = 0; n < setup.changes; n++) world.after(world.between(0.2 * setup.durationMs, setup.durationMs), () => void change());

  async function change(): Promise<void> {
    const key = Math.floor(world.random() * setup.keys);
    const [row, guard] = [rows[key] as KeyConfig, guards[key] as Guard];
    const kind = world.pick(["revoke", "lower", "lower", "expire"] as const);
    const limit = Math.floor(row.hourlyLimit * world.between(0.1, 1));
    const expiresAt = guard.clock() + world.between(0, 3000);
    const changed = kind === "revoke" ? { state: "revoked" as const } : kind === "lower" ? { hourlyLimit: limit } : { expiresAt };
    const version = row.version + 1;
    const config: KeyConfig = { ...row, ...changed, version, revision: String(version) };
    rows[key] = config;
    for (const each of changes) if (each.key === key) each.isLatest = false;
    const done: Change = { key, kind, limit, expiresAt, returnedAt: null, usedBefore: 0, window: 0, isLatest: true };
    changes.push(done);
    const sentAt = world.now;
    for (;;) {
      let active: Configured | null = null;
      try {
        active = await send(guard, (admission) => admission.configure(config));
      } catch {
        await world.sleep(100);
      }
      if (!active) continue;
      if (mistake !== "noWait") await world.sleep(active.outdatedForMs);
      break;
    }
    done.returnedAt = world.now;
    done.window = endOf({ per: "hour", startsAt: startOf.hour(guard.clock()) });
    done.usedBefore = used.get(`${key} hour ${done.window}`) ?? 0;
    outcome.waits.push(world.now - sentAt);
  }

  await world.run();
  outcome.writes = guards.reduce((sum, { writes }) => sum + writes, 0);
  for (const [key, guard] of guards.entries()) {
    const [hour] = guard.admission.counts.used(setup.limits, guard.clock()).filter(({ per }) => per === "hour");
    if (hour) outcome.stranded += hour.used - (used.get(`${key} hour ${hour.resetsAt}`) ?? 0);
  }
  if (world.now - startedAt < setup.durationMs / 2) outcome.violations.push("the simulation ended early");
  return outcome;
}
