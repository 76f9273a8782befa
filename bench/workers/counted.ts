import type { LeaseReturn } from "../../src/budget/holding.ts";
import type { AdmissionRequest, KeyConfig } from "../../src/guard/decision.ts";
import product, { KeyGuard as Guard, ActivityWriter as Writer } from "../../src/index.ts";
import type { Batch } from "../../src/log/batch.ts";
import type { Retention } from "../../src/log/retention.ts";
import type { Found, Query } from "../../src/log/segments/scan.ts";
import { writerAt } from "../../src/log/writers.ts";
import type { OpenRollups } from "../../src/usage/log-context.ts";
import type { LastUses } from "../../src/usage/store-totals.ts";
import { countD1, countStorage, counts } from "./counting.ts";

export { AccountBudget } from "../../src/index.ts";

/** The product. This Worker also counts the product's calls to the platform. */
export class KeyGuard extends Guard {
  constructor(ctx: DurableObjectState, env: Env) {
    countStorage(ctx.storage, "guardRows");
    super(ctx, env);
  }
  override admit(request: AdmissionRequest): ReturnType<Guard["admit"]> {
    counts.guardCalls++;
    return super.admit(request);
  }
  override alarm(): Promise<void> {
    counts.guardCalls++;
    return super.alarm();
  }
  override settle(returns: readonly LeaseReturn[]): void {
    counts.guardCalls++;
    super.settle(returns);
  }
  override configure(config: KeyConfig): ReturnType<Guard["configure"]> {
    counts.guardCalls++;
    return super.configure(config);
  }
}

export class ActivityWriter extends Writer {
  constructor(ctx: DurableObjectState, env: Env) {
    countStorage(ctx.storage, "writerRows");
    super(ctx, env);
    countD1(env.ACTIVITY_0);
  }
  override write(batch: Batch, version?: string): Promise<void> {
    counts.writerCalls++;
    return super.write(batch, version);
  }
  override openRollups(accountId: string): Promise<OpenRollups> {
    counts.writerCalls++;
    return super.openRollups(accountId);
  }
  override lastUses(accountId: string): Promise<LastUses> {
    counts.writerCalls++;
    return super.lastUses(accountId);
  }
  override search(accountId: string, query: Query): Promise<Found> {
    counts.writerCalls++;
    return super.search(accountId, query);
  }
  override deleteOld(retentions: readonly Retention[], now: number): Promise<boolean> {
    counts.writerCalls++;
    return super.deleteOld(retentions, now);
  }
  override wake(): void {
    counts.writerCalls++;
    super.wake();
  }
  override alarm(): Promise<void> {
    counts.writerCalls++;
    return super.alarm();
  }
}

/** Moves everything that the log writers hold into segments. */
async function flushAll(env: Env): Promise<number> {
  const { results } = await env.DB.prepare("SELECT id, log_writer AS logWriter FROM accounts").all<{ id: string; logWriter: string }>();
  for (const { id, logWriter } of results) await writerAt(env, logWriter).flush(id);
  return results.length;
}

export default {
  async fetch(request, env, ctx) {
    countD1(env.DB);
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/counts") return Response.json(counts);
    if (pathname === "/flush") return Response.json(await flushAll(env));
    if (pathname !== "/cron") return product.fetch(request, env, ctx);
    const controller = { scheduledTime: Number(searchParams.get("at")), cron: "* * * * *", noRetry() {} };
    await product.scheduled(controller as ScheduledController, env, ctx);
    return Response.json(counts);
  },
} satisfies ExportedHandler<Env>;
