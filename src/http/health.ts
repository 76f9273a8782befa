import { Hono } from "hono";
import { secondMs } from "../clock.ts";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { requireReady } from "../db/ready.ts";
import { withDeadline } from "../deadline.ts";
import type { AppEnv } from "./context.ts";

const rememberedMs = 2 * secondMs;
const timeoutMs = 5 * secondMs;

/** What the isolate last found. `checkedAt` is set before D1 is asked: whoever comes meanwhile gets what was found before. */
let latest = { checkedAt: Number.NEGATIVE_INFINITY, passes: false };

async function passes(d1: D1Database, now: number): Promise<boolean> {
  const isFirst = latest.checkedAt === Number.NEGATIVE_INFINITY;
  if (now >= latest.checkedAt && now - latest.checkedAt < rememberedMs) return latest.passes;
  if (!isFirst) latest = { ...latest, checkedAt: now };
  const found = await withDeadline(requireReady(connect(d1)), timeoutMs, "Asking D1 whether it is ready").then(
    () => true,
    (error: unknown) => {
      console.error("health: D1 does not answer:", messagesOf(error));
      return false;
    },
  );
  if (now >= latest.checkedAt) latest = { checkedAt: now, passes: found };
  return found;
}

export const health = new Hono<AppEnv>();

/** For monitors (draft-inadarei-api-health-check): passes when D1 answers and has its tables, as it was found two seconds ago, or when D1 last answered before that. */
health.get("/health", async (c) => {
  c.header("Content-Type", "application/health+json");
  if (await passes(c.env.DB, c.get("startedAt"))) return c.body(JSON.stringify({ status: "pass" }), 200);
  return c.body(JSON.stringify({ status: "fail", output: "The database does not answer." }), 503);
});
