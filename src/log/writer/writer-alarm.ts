import { connect, type Db } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { messagesOf } from "../../db/failures.ts";
import { objectNamed } from "../../db/region.ts";
import { minuteMs, secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { activityDatabase, databaseOf, numberOf } from "../databases.ts";
import { type AccountLogs, hasEntries } from "./account-logs.ts";
import { flushDue, nextFlushAt } from "./flush.ts";
import type { Hints } from "./hints.ts";
import { mergeOldSegments } from "./merge.ts";
import { nextFlushes, storePendingFlushes } from "./pending-flushes.ts";

/** If many accounts have segments to merge, the time between two groups of them, in milliseconds. */
const mergeEveryMs = 20 * secondMs;
const firstRetryMs = secondMs;
const maxRetryMs = 30 * secondMs;
/** If a database is full, its size is measured again after this time, in milliseconds. */
const fullProbeMs = minuteMs;
/** The maximum number of flushes that one alarm stores together, as batches. Each of them has about eleven statements, and an alarm may send 1,000. */
const maxBatches = 50;
const maxAlarmMs = minuteMs;
const d1TimeoutMs = 10 * secondMs;
const maxHintsAtOnce = 20;

interface Own {
  ctx: DurableObjectState;
  env: () => Env;
  name: string;
  logs: AccountLogs;
  hints: Hints;
}

/** The alarm of a log writer: flushes its accounts, stores flushes in D1, forwards hints and merges segments. */
export class WriterAlarm {
  readonly #ctx: DurableObjectState;
  readonly #env: () => Env;
  readonly #name: string;
  readonly #logs: AccountLogs;
  readonly #hints: Hints;
  /** Whether the activity database was full when it was last measured. */
  isFull = false;
  #measuredAt = 0;
  /** The time from which an alarm flushes accounts, in milliseconds since the epoch. Other alarms retry, merge or forward hints. */
  #flushesAt = 0;
  #retryMs = firstRetryMs;
  #alarmAt: number | null = null;

  constructor({ ctx, env, name, logs, hints }: Own) {
    [this.#ctx, this.#env, this.#name, this.#logs, this.#hints] = [ctx, env, name, logs, hints];
  }

  /** Called before the log writer takes its first call. */
  async start(): Promise<void> {
    this.#alarmAt = await this.#ctx.storage.getAlarm();
    if (this.#hasWork) this.setBy(Date.now() + firstRetryMs);
  }

  /** Makes sure that the alarm fires no later than `at`. */
  setBy(at: number): void {
    if (this.#alarmAt !== null && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.#ctx.waitUntil(this.#ctx.storage.setAlarm(at));
  }

  /** Sets the alarm for the next retry. */
  retry(): void {
    this.setBy(Date.now() + this.#backOff());
  }

  /** Sets the alarm again if it is missing or late. */
  wake(): void {
    const isMissing = this.#alarmAt === null || this.#alarmAt < Date.now() - minuteMs;
    if (!this.#hasWork || !isMissing) return;
    this.#alarmAt = null;
    this.setBy(Date.now());
  }

  /** Does what is due, and sets the next alarm. */
  async run(): Promise<void> {
    this.#alarmAt = null;
    const endsAt = Date.now() + maxAlarmMs;
    try {
      // Set the next alarm before any step that can fail, and catch every error. After six failures, the platform does not run the alarm again.
      this.setBy(endsAt + this.#retryMs);
      if (Date.now() >= this.#flushesAt) {
        flushDue(this.#logs, Date.now());
        this.#flushesAt = nextFlushAt(this.#name, Date.now());
      }
      await this.storeWaiting(endsAt);
      await this.#forwardHints(endsAt);
      const isMoreToMerge = await mergeOldSegments({ db: this.#db, logs: this.#logs }, Date.now(), endsAt);
      this.#retryMs = firstRetryMs;
      await this.#setNextAlarm();
      if (isMoreToMerge) this.setBy(Date.now() + mergeEveryMs);
    } catch (error) {
      console.error(`an alarm of the log writer ${this.#name} failed:`, messagesOf(error));
      await this.#setNextAlarm(Date.now() + this.#backOff());
      this.#retryMs = Math.min(2 * this.#retryMs, maxRetryMs);
    }
  }

  /** Stores the pending flushes in D1, the oldest flush of each account first. Throws if D1 does not respond. */
  async storeWaiting(endsAt = Date.now() + maxAlarmMs): Promise<void> {
    for (let batches = 0; batches < maxBatches && Date.now() < endsAt; batches++) {
      const flushes = nextFlushes(this.#logs);
      if (flushes.length === 0 || (await this.#isDatabaseFull())) return;
      await storePendingFlushes({ db: this.#db, logs: this.#logs, hints: this.#hints, owner: numberOf(this.#name) }, flushes);
    }
  }

  /** Gives hints to their owners. A hint whose owner cannot be reached stays. */
  async #forwardHints(endsAt: number): Promise<void> {
    let hint = this.#hints.next(0);
    for (let count = 0; hint && count < maxHintsAtOnce && Date.now() < endsAt; count++) {
      try {
        const owner = objectNamed(this.#env().ACTIVITY_WRITER, `${databaseOf(this.#name)}/${hint.owner}`, this.#env());
        await withDeadline(owner.write(hint.batch), d1TimeoutMs, "Forwarding entries");
        this.#hints.remove(hint.row);
      } catch (error) {
        console.error(`${this.#name} cannot forward ${hint.batch.entries.length} entries:`, messagesOf(error));
      }
      hint = this.#hints.next(hint.row);
    }
  }

  get #db(): Db {
    return connect(activityDatabase(this.#env(), this.#name));
  }

  get #hasWork(): boolean {
    return this.#hints.entries > 0 || [...this.#logs.accounts.values()].some(hasEntries);
  }

  async #isDatabaseFull(): Promise<boolean> {
    if (Math.abs(Date.now() - this.#measuredAt) < fullProbeMs) return this.isFull;
    const { meta } = await withDeadline(this.#db.$client.prepare("SELECT 1").run(), d1TimeoutMs, "Measuring a database");
    this.#measuredAt = Date.now();
    this.isFull = (meta.size_after ?? 0) >= fullBytes.activity;
    return this.isFull;
  }

  /** Returns a delay before the next retry, in milliseconds. Log writers that failed at the same time retry at different times. */
  #backOff(): number {
    return this.#retryMs * (0.5 + Math.random());
  }

  /** Sets the alarm to the time at which there is work again, or deletes it if there is none. */
  async #setNextAlarm(retryAt?: number): Promise<void> {
    const logs = [...this.#logs.accounts.values()];
    const isWaiting = logs.some(({ waiting }) => waiting.length > 0);
    const at =
      retryAt ??
      (isWaiting || this.#hints.entries > 0
        ? Date.now() + (this.isFull ? fullProbeMs : this.#backOff())
        : nextFlushAt(this.#name, Date.now()));
    this.#alarmAt = this.#hasWork ? at : null;
    await (this.#alarmAt === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(this.#alarmAt));
  }
}
