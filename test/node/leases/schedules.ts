import { join } from "node:path";
import { pick, randomFrom } from "../../../scripts/seed-random.ts";
import { KeyAdmission } from "../../../src/guard/key-admission.ts";
import { processLeaseMs } from "../../../src/guard/lease-setting.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { root } from "../project.ts";
import { configOf, secretHash } from "./simulation.ts";

// Schedules of a process that holds leases of one key: what it is asked and what it decides, beside the guard of the product. Times step, messages are lost, and
// the guard counts. `integrations/schedules.txt` has a thousand of them, one in each line, and the clients for Node and for Go replay all of them.

// biome-ignore lint/suspicious/noExplicitAny: the client is JavaScript
type Any = any;
export const { Leases }: Any = await import(join(root, "integrations/node/leases.js"));

type Back = [lease: string, unused: number][];
/** What an answer says: its status, its code, what is used, its order, and its lease with units, time and urgency. */
type Said = [
  status: number,
  code: string | null,
  used: number,
  order: number,
  lease: string | null,
  units: number,
  forMs: number,
  isUrgent: boolean,
];
/** A step, with what the process does as its last members. */
export type Step =
  | ["admit", mono: number, wall: number, cost: number, used: number | null]
  | ["ask", mono: number, wall: number, cost: number, want: number, back: Back]
  | ["take", askedMono: number, askedWall: number, want: number, cost: number, mono: number, wall: number, said: Said, used: number | null]
  | ["lost", want: number, back: Back]
  | ["due", mono: number, wall: number, all: boolean, items: [want: number, back: Back][]];

const id = "one";
const limit = 5000;
const backOf = (back: { lease: string; unused: number }[]): Back => back.map(({ lease, unused }) => [lease, unused]);
const listOf = (back: Back) => back.map(([lease, unused]) => ({ lease, unused }));
const usedIn = (answer: Any): number | null => (answer?.allowed ? answer.rate_limits[0].used : null);

export const answerOf = ([status, code, used, order, lease, units, forMs, isUrgent]: Said) => ({
  allowed: status === 200,
  status,
  code,
  account: { id: "acc_1", metadata: {} },
  key: { id: "key_1", scopes: [], metadata: {}, expires_at: null },
  rate_limits: [{ name: "hour", limit, used, remaining: limit - used, resets_at: "2099-01-01T00:00:00.000Z" }],
  headers: {},
  lease,
  units,
  for_ms: forMs,
  is_urgent: isUrgent,
  order,
  allowed_ips: [],
});

/** Plays a step. Returns what the process does. */
export function play(leases: Any, step: Step): unknown {
  switch (step[0]) {
    case "admit":
      return usedIn(leases.admit(id, { cost: step[3] }, { mono: step[1], wall: step[2] }));
    case "ask": {
      const { want, back } = leases.question(id, { mono: step[1], wall: step[2] }, step[3]);
      return [want, backOf(back)];
    }
    case "take": {
      const [, mono, wall, want, cost, nowMono, nowWall, said] = step;
      const asked = { at: { mono, wall }, want, back: [], cost };
      return usedIn(leases.take(id, asked, answerOf(said), { mono: nowMono, wall: nowWall }));
    }
    case "lost":
      return leases.keepBack(id, { want: step[1], back: listOf(step[2]) }) ?? null;
    case "due":
      return leases.due({ mono: step[1], wall: step[2] }, step[3]).map(({ want, back }: Any) => [want, backOf(back)]);
  }
}

/** Makes a schedule. Throws if the process and the guard admit more than the limit. */
export async function schedule(seed: number): Promise<Step[]> {
  const random = randomFrom(seed);
  const between = (from: number, to: number) => Math.round(from + random() * (to - from));
  const disk = new Map<string, unknown>([["config", configOf([{ per: "hour", limit: pick(random, [12, 40, 200]) }], [])]]);
  const { hourlyLimit } = disk.get("config") as { hourlyLimit: number };
  // The clocks of the process are far from that of the guard.
  let [wall, mono, guardTime] = [10_000, 500, 10 * hourMs];
  const guard = new KeyAdmission({
    keyId: "key_1",
    kv: { get: (name: string) => disk.get(name) as never, put: (name, value) => void disk.set(name, value) },
    budgets: {} as never,
    events: { addDue: () => false },
    leaseMs: 1000,
    now: () => guardTime,
    sleep: async (ms) => pass(ms),
    load: async () => {},
    setAlarmBy: () => {},
    inBackground: (work) => void work.catch(() => {}),
  });
  const leases = new Leases();
  const steps: Step[] = [];
  const given = new Map<string, string>();
  let [admitted, order] = [0, 0];
  const pass = (ms: number) => {
    for (const each of ["wall", "mono", "guard"] as const) {
      if (each === "wall") wall += ms;
      else if (each === "mono") mono += ms;
      else guardTime += ms;
    }
  };
  const note = <Made extends Step>(step: Made) => {
    const result = play(leases, step);
    const made =
      step[0] === "ask" ? [...step.slice(0, 4), ...(result as unknown[])] : step[0] === "lost" ? step : [...step.slice(0, -1), result];
    steps.push(made as Step);
    return result;
  };
  /** Asks the guard, and takes note of its answer. */
  const ask = async (want: number, back: Back, cost: number) => {
    const [askedMono, askedWall] = [mono, wall];
    if (random() < 0.1) {
      note(["lost", want, back]);
      return;
    }
    pass(between(1, random() < 0.1 ? 1500 : 60));
    const returns = back.flatMap(([lease, unused]) => (given.has(lease) ? [{ id: given.get(lease) as string, unused }] : []));
    const request = { secretHash, ip: "", scope: null, counted: true, cost, want, leaseMs: processLeaseMs, returns };
    const answer = await guard.admit(request as never);
    if (!answer) throw new Error("there is no such key");
    const { lease, refusal, rateLimit } = answer;
    const name = lease ? `L${given.size + 1}` : null;
    if (lease && name) given.set(name, lease.id);
    if (refusal === null) admitted += cost;
    pass(between(1, 60));
    const said: Said = [
      refusal === null ? 200 : 429,
      refusal,
      rateLimit.used,
      ++order,
      name,
      lease?.units ?? 0,
      lease?.forMs ?? 0,
      lease?.isUrgent ?? false,
    ];
    note(["take", askedMono, askedWall, want, cost, mono, wall, said, null]);
  };
  for (let n = between(5, 14); n > 0; n--) {
    pass(between(0, pick(random, [20, 300, 300, 1500, 5000])));
    if (random() < 0.04) wall += between(-600, 3000);
    const cost = random() < 0.15 ? 3 : 1;
    if (random() < 0.8) {
      if (note(["admit", mono, wall, cost, null]) !== null) admitted += cost;
      else {
        const [want, back] = note(["ask", mono, wall, cost, 0, []]) as [number, Back];
        await ask(want, back, cost);
      }
    } else {
      const items = note(["due", mono, wall, random() < 0.05, []]) as [number, Back][];
      for (const [want, back] of items) await ask(want, back, 0);
    }
    if (admitted > hourlyLimit) throw new Error(`${admitted} of ${hourlyLimit} units were admitted, with the seed ${seed}`);
  }
  return steps;
}
