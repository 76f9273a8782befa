import packageJson from "../../package.json" with { type: "json" };
import { connect } from "../db/client.ts";
import { fullDatabases } from "../db/database-sizes.ts";
import { messagesOf } from "../db/failures.ts";
import { deployedAtOf, readJobRuns } from "../db/job-runs.ts";
import { requireReady } from "../db/ready.ts";
import { callGuard, guardsOf } from "../guard/guards.ts";
import { anyOrigin, options } from "../http/cross-origin.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { respond } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import { iso, secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { allWriters, readWriters } from "../log/writers.ts";
import { conditionsOf } from "../monitoring/conditions.ts";
import { type DeploymentStatus, noStatus } from "../monitoring/deployment-status.ts";

const path = "/health";
const cacheMs = 2 * secondMs;
const timeoutMs = 5 * secondMs;

/**
 * The result of checking one part of the service. `fail` means that requests cannot be served correctly. `warn` means that the part has a
 * problem, but requests are served.
 */
interface Check {
  status: "pass" | "warn" | "fail";
  time: string;
  output?: string;
}

type Checks = Record<string, Check[]>;

/** Checks one part. Returns what is wrong, or null if the part works. Throws if the part does not respond. */
type Ask = (env: Env) => Promise<string | null>;

/**
 * The parts to check. `noResponse` is the message for a part that does not respond. If `isNeeded` is true, requests fail without the part. If
 * `mustWork` is true, anything that is wrong with the part is a failure, and not only a warning.
 */
const parts: Record<string, { ask: Ask; noResponse: string; isNeeded: boolean; mustWork?: boolean }> = {
  "database:main": { ask: askDatabase, noResponse: "The database does not respond.", isNeeded: true },
  "guards:admission": { ask: askGuards, noResponse: "The guards of the keys do not respond.", isNeeded: true },
  "activity:log": { ask: askWriters, noResponse: "The log writers do not respond.", isNeeded: false },
  "queue:deliveries": {
    ask: askQueue,
    noResponse: "The queue of deliveries does not respond, so deliveries wait for the scheduled job.",
    isNeeded: false,
  },
  "cron:jobs": {
    ask: askCron,
    noResponse: "The times of the scheduled jobs cannot be read.",
    isNeeded: false,
    mustWork: true,
  },
};

async function askDatabase(env: Env): Promise<string | null> {
  const db = connect(env.DB);
  await withDeadline(requireReady(db), timeoutMs, "Asking D1 whether it is ready");
  const full = await withDeadline(fullDatabases(db), timeoutMs, "Asking which databases are full").catch((): string[] => []);
  return full.includes("DB") ? "The database is full. Only changes that end or delete something are possible." : null;
}

/** Checks the guards by calling a guard that belongs to no key. */
async function askGuards(env: Env): Promise<null> {
  await callGuard(guardsOf(env), "health", (guard) => guard.ping());
  return null;
}

/** Everybody may call `/health`, so it asks at most this number of log writers. */
const maxWritersAsked = 8;

/** Returns some log writers that follow each other, from a random one on. */
function someWriters(env: Env): string[] {
  const all = allWriters(env);
  const first = Math.floor(Math.random() * all.length);
  return [...all.slice(first), ...all.slice(0, first)].slice(0, maxWritersAsked);
}

/** Returns what the conditions say about the part, or null if none holds. */
function warningOf(env: Env, health: "activity:log" | "cron:jobs", status: Partial<DeploymentStatus>): string | null {
  const facts = { ...noStatus, recent: null, needsLost: null, deployedAt: deployedAtOf(env.VERSION), now: Date.now(), ...status };
  return (
    conditionsOf(facts, health)
      .map(({ summary }) => summary)
      .join(" ") || null
  );
}

/** API requests are served even without the log. */
async function askWriters(env: Env): Promise<string | null> {
  return warningOf(env, "activity:log", { log: await readWriters(env, someWriters(env)) });
}

async function askQueue(env: Env): Promise<null> {
  await withDeadline(env.DELIVERIES.metrics(), timeoutMs, "Asking the queue how much it holds");
  return null;
}

/** Cron cannot report its own death, so `/health` compares the time of its last run. */
async function askCron(env: Env): Promise<string | null> {
  const runs = await withDeadline(readJobRuns(connect(env.DB)), timeoutMs, "Reading the times of the scheduled jobs");
  return warningOf(env, "cron:jobs", { jobs: [...runs.values()] });
}

async function check(env: Env, name: string, now: number): Promise<Check[]> {
  const { ask, noResponse, isNeeded, mustWork = false } = parts[name] as (typeof parts)[string];
  const time = iso(now);
  try {
    const output = await ask(env);
    if (output === null) return [{ status: "pass", time }];
    console.warn(`health: ${output}`);
    return [{ status: mustWork ? "fail" : "warn", time, output }];
  } catch (error) {
    console.error(`health: ${noResponse}`, messagesOf(error));
    return [{ status: isNeeded ? "fail" : "warn", time, output: noResponse }];
  }
}

/**
 * The latest check results of this isolate. Each check after the first sets `checkedAt` at its start. Until the check ends, other requests
 * get the previous results.
 */
let latest: { checkedAt: number; checks: Checks } = { checkedAt: Number.NEGATIVE_INFINITY, checks: {} };

async function checksAt(env: Env, now: number): Promise<Checks> {
  const isFirst = latest.checkedAt === Number.NEGATIVE_INFINITY;
  if (now >= latest.checkedAt && now - latest.checkedAt < cacheMs) return latest.checks;
  if (!isFirst) latest = { ...latest, checkedAt: now };
  const checks: Checks = Object.fromEntries(
    await Promise.all(Object.keys(parts).map(async (name) => [name, await check(env, name, now)] as const)),
  );
  if (now >= latest.checkedAt) latest = { checkedAt: now, checks };
  return checks;
}

const worst = (checks: Checks): Check["status"] => {
  const found = new Set(Object.values(checks).flatMap((each) => each.map(({ status }) => status)));
  return found.has("fail") ? "fail" : found.has("warn") ? "warn" : "pass";
};

/**
 * Creates the route `/health` for monitors (draft-inadarei-api-health-check). Each isolate caches its results for two seconds. If D1 or the
 * guards do not respond, or if the scheduled jobs have not run for five minutes, the status is `fail`.
 * Waiting log entries, an unavailable queue or a full database cause only a
 * warning, because requests are still served. `releaseId` is Cloudflare's id of the deployed Worker version.
 */
export function createHealth({ isLocal }: Pick<Build, "isLocal">): Surface {
  const app = createSurfaceApp(problem);
  app.use(
    requestContext({ isLocal, headers: { ...apiSecurityHeaders, ...anyOrigin } }),
    options(() => ["GET", "HEAD"]),
    requireResponse,
  );
  app.get(path, async (c) => {
    const checks = await checksAt(c.env, c.get("startedAt"));
    const status = worst(checks);
    const output = Object.values(checks).flatMap((each) => each.flatMap((found) => found.output ?? []));
    const release = { version: packageJson.version, releaseId: c.env.VERSION?.id };
    const body = { status, ...release, ...(output.length > 0 && { output: output.join(" ") }), checks };
    return respond(c, JSON.stringify(body), status === "fail" ? 503 : 200, { "Content-Type": "application/health+json" });
  });
  return { serves: (requested) => requested === path, app };
}
