import { DurableObject } from "cloudflare:workers";
import { connect } from "../../src/db/client.ts";
import { newId } from "../../src/lib/ids.ts";
import { dayMs, minuteMs, secondMs } from "../../src/lib/time/clock.ts";
import type { Entry } from "../../src/log/entry.ts";
import { AccountLogs } from "../../src/log/writer/account-logs.ts";
import { deleteOldSegments } from "../../src/log/writer/delete-old-segments.ts";
import { flushDue, flushLargest } from "../../src/log/writer/flush.ts";
import { Hints } from "../../src/log/writer/hints.ts";
import { mergeOldSegments } from "../../src/log/writer/merge.ts";
import { nextFlushes, storePendingFlushes } from "../../src/log/writer/pending-flushes.ts";
import { deleteOldUsage } from "../../src/usage/retention.ts";
import { countD1, countStorage, counts } from "./counting.ts";
import { batchOf, benchEntry } from "./entry.ts";
import { workerOf } from "./verbs.ts";

// The work of a log writer, with the product's own functions and a simulated clock. Hours of traffic therefore take minutes.

/** Traffic to simulate. `perSecond`: the number of requests per second of all accounts together. */
interface Traffic {
  accounts: number;
  keys: number;
  addresses: number;
  tasks: number;
  perSecond: number;
  from: number;
  to: number;
}

const flushEveryMs = 5 * minuteMs;
const agents = ["bench/1.0", "curl/8.5.0", "python-requests/2.32.3", "node", "Go-http-client/2.0"];
const statuses = [200, 200, 200, 200, 200, 200, 200, 200, 201, 404];

const any = (below: number) => Math.floor(Math.random() * below);
const hex = (value: number) => value.toString(16).padStart(16, "0");

function entryAt(at: number, { accounts, keys, addresses, tasks }: Traffic): Entry {
  const account = any(accounts);
  const address = any(addresses);
  const isOfTask = any(3) > 0;
  return benchEntry(
    { accountId: `acc_${hex(account)}`, id: newId("req", at), keyId: `key_${hex(account * 1000 + any(keys))}` },
    {
      path: isOfTask ? `/api/v1/tasks/tsk_019a1b2c3d4e7f80${hex(2 ** 40 * any(tasks))}` : "/api/v1/tasks",
      route: isOfTask ? "/api/v1/tasks/{id}" : "/api/v1/tasks",
      status: statuses[any(statuses.length)] ?? 200,
      durationMs: Math.floor(2 ** (Math.random() * 9)),
      ip: `198.51.${address % 256}.${Math.floor(address / 256)}`,
      userAgent: agents[address % agents.length] ?? null,
    },
  );
}

export class ActivityWriter extends DurableObject<Env> {
  readonly #logs: AccountLogs;
  readonly #hints: Hints;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    countStorage(ctx.storage, "writerRows");
    countD1(env.ACTIVITY_0);
    this.#logs = new AccountLogs(ctx.storage);
    this.#hints = new Hints(ctx.storage.sql);
  }

  /** Appends the entries of each second together, and flushes every five minutes. At last, flushes everything and merges. Returns the number of entries. */
  async simulate(traffic: Traffic): Promise<number> {
    let made = 0;
    for (let at = traffic.from; at < traffic.to; at += secondMs) {
      const own = Array.from({ length: traffic.perSecond }, () => entryAt(at + any(secondMs), traffic));
      this.#logs.append([batchOf(own)], at);
      if (flushLargest(this.#logs, at) > 0) await this.#store();
      made += own.length;
      if (at % flushEveryMs === 0) await this.#flush(at);
    }
    await this.#flush(traffic.to + 2 * 60 * minuteMs);
    await this.#merge(traffic.to + 2 * dayMs);
    return made;
  }

  /** Deletes all segments and totals, as their retention does. */
  async retain(now: number): Promise<void> {
    const accounts = [...this.#logs.accounts.keys()];
    const retentions = accounts.map((accountId) => ({ accountId, days: 31 }));
    while (await deleteOldSegments({ db: connect(this.env.ACTIVITY_0), logs: this.#logs, now: now + 33 * dayMs }, retentions));
    while (await deleteOldUsage(this.env.ACTIVITY_0, accounts, now + 402 * dayMs));
  }

  async #flush(now: number): Promise<void> {
    flushDue(this.#logs, now);
    await this.#store();
  }

  async #store(): Promise<void> {
    const db = connect(this.env.ACTIVITY_0);
    for (let flushes = nextFlushes(this.#logs); flushes.length > 0; flushes = nextFlushes(this.#logs))
      await storePendingFlushes({ db, logs: this.#logs, hints: this.#hints, owner: 0 }, flushes);
  }

  async #merge(now: number): Promise<void> {
    while (await mergeOldSegments({ db: connect(this.env.ACTIVITY_0), logs: this.#logs }, now, Number.POSITIVE_INFINITY));
  }
}

type Bindings = Omit<Env, "ACTIVITY_WRITER"> & { ACTIVITY_WRITER: DurableObjectNamespace<ActivityWriter> };

const writerIn = (env: Bindings) => env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0");

export default workerOf<Bindings>({
  counts: async () => counts,
  simulate: async (traffic: Traffic, env) => writerIn(env).simulate(traffic),
  retain: async (now: number, env) => writerIn(env).retain(now),
});
