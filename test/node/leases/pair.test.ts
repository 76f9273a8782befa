import { describe, expect, it } from "vitest";
import { LeaseHolder } from "../../../src/admission/lease-holder.ts";
import type { BudgetAnswer } from "../../../src/budget/holding.ts";
import type { LimitUsage } from "../../../src/budget/limits.ts";
import type { Admission, AdmissionRequest, KeyConfig } from "../../../src/guard/decision.ts";
import type { Guards } from "../../../src/guard/guards.ts";
import { KeyAdmission } from "../../../src/guard/key-admission.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import type { Moment } from "../../../src/lib/time/moment.ts";
import { configOf, secretHash } from "./simulation.ts";

// One guard and one isolate, step by step. What many of them do together is simulated in lease.test.ts.

const keyId = "key_1";
const anyRequest: AdmissionRequest = { secretHash, ip: "", scope: null, counted: true, cost: 1 };
const attempt = { id: "attempt_1", about: "GET /orders" };

/** A guard and an isolate, with a clock that the test moves. */
class Pair {
  now = 10 * hourMs;
  readonly guard: KeyAdmission;
  readonly holder = new LeaseHolder({ now: () => this.moment, sleep: async () => {} });
  /** What the guard reported of its limits when it looked whether events are due. */
  readonly reported: LimitUsage[][] = [];
  onSleep = () => {};
  readonly #disk = new Map<string, unknown>();

  constructor(config: Partial<KeyConfig> = {}, ask: () => Promise<BudgetAnswer | null> = async () => null) {
    this.#disk.set("config", { ...configOf([{ per: "hour", limit: 5000 }], []), ...config });
    this.guard = new KeyAdmission({
      keyId,
      kv: { get: (name: string) => this.#disk.get(name) as never, put: (name, value) => this.#disk.set(name, value) },
      budgets: { getByName: () => ({ ask, mergeReport: async () => {} }) } as never,
      events: { addDue: (_key, _config, used) => this.reported.push([...used]) < 0 },
      leaseMs: 1000,
      now: () => this.now,
      sleep: async (ms) => {
        this.now += ms;
        this.onSleep();
      },
      load: async () => {},
      setAlarmBy: () => {},
      inBackground: (work) => void work.catch(() => {}),
    });
  }

  get moment(): Moment {
    return this.now as Moment;
  }

  readonly guards = { leaseMs: 1000 } as Guards;

  /** Sends a request. `slowMs`: how long the answer of the guard takes. Returns who decided, and the answer. */
  async request(more: Partial<AdmissionRequest> = {}, slowMs = 0): Promise<{ by: "lease" | "guard"; admission: Admission }> {
    const request = { ...anyRequest, ...more };
    const at = this.moment;
    const near = this.holder.admit(keyId, request, at);
    if (near) return { by: "lease", admission: near };
    const question = this.holder.questionTo(this.guards, keyId, request, at);
    const answer = await this.guard.admit(question);
    if (!answer) throw new Error("there is no such key");
    this.now += slowMs;
    return { by: "guard", admission: this.holder.takeAnswer(keyId, { ...question, at }, answer, this.moment) };
  }

  /** Sends three requests. A lease decides about the last one. */
  async warmUp(): Promise<void> {
    await this.request();
    await this.request();
    expect((await this.request()).by).toBe("lease");
  }
}

describe("A guard and an isolate", () => {
  it("decide by leases again after the overlap of the key's secrets has ended", async () => {
    const pair = new Pair({ previousSecretHash: "p".repeat(64), overlapEndsAt: 10 * hourMs - 1 });
    await pair.warmUp();
  });

  it("decide by no lease while a limit is nearly used up", async () => {
    const pair = new Pair({ hourlyLimit: 30 });
    const by = [];
    for (let n = 0; n < 30; n++) by.push((await pair.request()).by);
    expect(by.slice(-20)).toEqual(Array.from({ length: 20 }, () => "guard"));
    expect((await pair.request()).admission.refusal).toBe("rate_limit_exceeded");
  });

  it("forget a lease whose answer took longer than the lease lasts, and its units come back", async () => {
    const pair = new Pair();
    await pair.request();
    await pair.request({}, 1500);
    const { by, admission } = await pair.request();
    expect([by, admission.rateLimit.used]).toEqual(["guard", 3]);
  });

  it("count a verification with a request_id once, and later responses show it", async () => {
    const pair = new Pair();
    await pair.warmUp();
    const used = [];
    for (const entryId of ["req_1", "req_2"]) {
      const { admission } = await pair.request({ verification: { accountIds: null, entryId, attempt } });
      used.push(admission.rateLimit.used);
    }
    used.push((await pair.request()).admission.rateLimit.used);
    expect(used).toEqual([4, 4, 5]);
  });

  it("report a threshold when units come back that were used, although nothing else is counted", async () => {
    const pair = new Pair({ hourlyLimit: 1000 });
    for (let n = 0; n < 796; n++) await pair.guard.admit(anyRequest);
    await pair.warmUp();
    const [before] = pair.reported.at(-1) ?? [];
    await pair.request();
    pair.guard.settle(pair.holder.takeReturns(keyId));
    const [after] = pair.reported.at(-1) ?? [];
    expect([before?.used, after?.used]).toEqual([undefined, 800]);
  });

  it("let a request wait while units are out, and admit it when they come back", async () => {
    const pair = new Pair({ hourlyLimit: 64 });
    await pair.request();
    await pair.request();
    const admitted = async () => (await pair.guard.admit(anyRequest))?.refusal === null;
    for (let n = 0; n < 60; n++) expect(await admitted()).toBe(true);
    pair.onSleep = () => pair.guard.settle(pair.holder.takeReturns(keyId));
    const startedAt = pair.now;
    expect([await admitted(), await admitted(), await admitted()]).toEqual([true, true, false]);
    expect(pair.now - startedAt).toBe(50);
  });
});
