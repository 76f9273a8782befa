import { Hono } from "hono";
import { readWriters } from "../activity/writers.ts";
import { iso, secondMs } from "../clock.ts";
import { connect } from "../db/client.ts";
import { fullDatabases } from "../db/database-sizes.ts";
import { messagesOf } from "../db/failures.ts";
import { requireReady } from "../db/ready.ts";
import { withDeadline } from "../deadline.ts";
import type { AppEnv } from "./context.ts";

const rememberedMs = 2 * secondMs;
const timeoutMs = 5 * secondMs;

/** What is wrong with one part; `fail` where requests cannot be answered as they should, `warn` where they are. */
interface Check {
  status: "pass" | "warn" | "fail";
  time: string;
  output?: string;
}

type Checks = Record<string, Check[]>;

/** What the isolate last found. `checkedAt` is set before anything is asked: whoever comes meanwhile gets what was found before. */
let latest: { checkedAt: number; checks: Checks } = { checkedAt: Number.NEGATIVE_INFINITY, checks: {} };

async function checksAt(env: Env, now: number): Promise<Checks> {
  const isFirst = latest.checkedAt === Number.NEGATIVE_INFINITY;
  if (now >= latest.checkedAt && now - latest.checkedAt < rememberedMs) return latest.checks;
  if (!isFirst) latest = { ...latest, checkedAt: now };
  const [database, writers] = await Promise.all([checkDatabase(env, now), checkWriters(env, now)]);
  const checks = { "database:main": [database], "activity:log": [writers] };
  if (now >= latest.checkedAt) latest = { checkedAt: now, checks };
  return checks;
}

async function checkDatabase(env: Env, now: number): Promise<Check> {
  const time = iso(now);
  try {
    const db = connect(env.DB);
    await withDeadline(requireReady(db), timeoutMs, "Asking D1 whether it is ready");
    const full = await withDeadline(fullDatabases(db), timeoutMs, "Asking which databases are full").catch((): string[] => []);
    return full.includes("DB")
      ? { status: "warn", time, output: "The database is full: only what ends or deletes something is done." }
      : { status: "pass", time };
  } catch (error) {
    console.error("health: D1 does not answer:", messagesOf(error));
    return { status: "fail", time, output: "The database does not answer." };
  }
}

/** The log is written, or kept until it can be: neither is felt by requests. */
async function checkWriters(env: Env, now: number): Promise<Check> {
  const time = iso(now);
  try {
    const { journalled, dropped, full, unreachable } = await readWriters(env);
    const faults = [
      ...unreachable.map((writer) => `the writer ${writer} cannot be reached`),
      ...full.map((store) => `${store} is full`),
      ...(journalled > 0 ? [`${journalled} entries of the log wait for a database that has not confirmed them`] : []),
      ...(dropped > 0 ? [`${dropped} entries were dropped`] : []),
    ];
    if (faults.length === 0) return { status: "pass", time };
    console.warn(`health: ${faults.join("; ")}`);
    return { status: "warn", time, output: `${faults.join("; ")}.` };
  } catch (error) {
    console.error("health: the writers of the log do not answer:", messagesOf(error));
    return { status: "warn", time, output: "The writers of the log do not answer." };
  }
}

const worst = (checks: Checks): Check["status"] => {
  const found = new Set(Object.values(checks).flatMap((each) => each.map(({ status }) => status)));
  return found.has("fail") ? "fail" : found.has("warn") ? "warn" : "pass";
};

export const health = new Hono<AppEnv>();

/**
 * For monitors (draft-inadarei-api-health-check): passes when D1 answers and has its tables, as it was found two seconds ago, or when D1 last
 * answered before that. A log that has to wait, or a full database, is a warning: requests are answered.
 */
health.get("/health", async (c) => {
  c.header("Content-Type", "application/health+json");
  const checks = await checksAt(c.env, c.get("startedAt"));
  const status = worst(checks);
  const output = Object.values(checks).flatMap((each) => each.flatMap((check) => check.output ?? []));
  const body = { status, ...(output.length > 0 && { output: output.join(" ") }), checks };
  return c.body(JSON.stringify(body), status === "fail" ? 503 : 200);
});
