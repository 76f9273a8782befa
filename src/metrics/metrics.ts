import { Hono } from "hono";
import { accepts } from "hono/accepts";
import { connect } from "../db/client.ts";
import { secondMs } from "../lib/time/clock.ts";
import type { Decisions } from "../log/decisions.ts";
import type { WriterCounts } from "../log/writer/activity-writer.ts";
import type { Lost } from "../log/writer/counters.ts";
import { bucketsMs, routeClasses } from "../log/writer/request-counters.ts";
import { readCounts } from "../log/writers.ts";
import { type DeploymentStatus, readDeploymentStatus } from "../monitoring/deployment-status.ts";
import type { TeamEnv } from "../team/team-router.ts";

// Metrics in the OpenMetrics 1.0 format, or in the older text format of Prometheus. No metric describes a single account.

const openMetrics = "application/openmetrics-text";
const contentTypes = {
  [openMetrics]: `${openMetrics}; version=1.0.0; charset=utf-8`,
  "text/plain": "text/plain; version=0.0.4; charset=utf-8",
};

interface Metric {
  name: string;
  help: string;
  unit?: "seconds" | "bytes";
  /**
   * The type `counter` means that the value never decreases. OpenMetrics requires the suffix `_total` for counters. A metric without a type is a
   * gauge.
   */
  type?: "counter" | "histogram";
  /** The values of the metric, with labels. An unknown value is null, and is not in the output. A value of a histogram has a suffix, for example `_bucket`. */
  values: readonly (readonly [labels: Record<string, string>, value: number | null, suffix?: string])[];
}

const escaped = (value: string) => value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

/** Formats a metric. In the older format, the suffix of a counter belongs to its name, and units do not exist. */
function textOf({ name, help, unit, type, values }: Metric, isOpenMetrics: boolean): string {
  const lines = values
    .filter(([, value]) => value !== null)
    .map(([labels, value, suffix = type === "counter" ? "_total" : ""]) => {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
      return `${name}${suffix}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}\n`;
    });
  const family = type === "counter" && !isOpenMetrics ? `${name}_total` : name;
  const ofUnit = unit && isOpenMetrics ? `# UNIT ${name} ${unit}\n` : "";
  return `# TYPE ${family} ${type ?? "gauge"}\n${ofUnit}# HELP ${family} ${help}\n${lines.join("")}`;
}

const ageOf = (since: number | null, now: number) => (since === null ? 0 : Math.max(0, now - since) / secondMs);

/** Without a first value of 0, Prometheus would not notice the first failure. */
const noRequests = { 2: 0, 3: 0, 4: 0, 5: 0 };

/** Formats a bound as OpenMetrics requires it: with a decimal point. */
const decimal = (value: number) => (Number.isInteger(value) ? value.toFixed(1) : String(value));

/**
 * The metrics of requests. Each log writer counts its own accounts, and has its own label: while a log writer does not respond, its counters are
 * missing, and the others do not decrease.
 */
function requestMetrics(counts: ReadonlyMap<string, WriterCounts>): Metric[] {
  const ofClasses = [...counts].flatMap(([writer, { served }]) => routeClasses.map((name) => ({ writer, name, served: served[name] })));
  const ofVersions = [...counts].flatMap(([writer, { versions }]) =>
    Object.entries(versions).map(([version, each]) => ({ writer, version, ...each })),
  );
  const ofDecisions = (pick: (decisions: Decisions) => Record<string, number>, label: string) =>
    [...counts].flatMap(([writer, { decisions }]) =>
      Object.entries(pick(decisions)).map(([value, count]) => [{ [label]: value, writer }, count] as const),
    );
  return [
    {
      name: "dvo_requests",
      type: "counter",
      help: "Requests with a key, by class of their route and by class of their status. Requests whose response was not reported are left out.",
      values: ofClasses.flatMap(({ writer, name, served }) =>
        Object.entries({ ...noRequests, ...served.requests }).map(
          ([digit, requests]) => [{ class: name, status: `${digit}xx`, writer }, requests] as const,
        ),
      ),
    },
    {
      name: "dvo_request_duration_seconds",
      type: "histogram",
      unit: "seconds",
      help: "Response times of requests with a key.",
      values: ofClasses.flatMap(({ writer, name, served: { buckets, durationMs } }) => {
        let sum = 0;
        const labels = { class: name, writer };
        const cumulative = buckets.map((count, bucket) => {
          sum += count;
          const bound = bucketsMs[bucket];
          return [{ ...labels, le: bound === undefined ? "+Inf" : decimal(bound / secondMs) }, sum, "_bucket"] as const;
        });
        return [...cumulative, [labels, sum, "_count"] as const, [labels, durationMs / secondMs, "_sum"] as const];
      }),
    },
    {
      name: "dvo_version_requests",
      type: "counter",
      help: "Requests with a key that one version of the Worker has served. The outcome `failed` is a 5xx status.",
      values: ofVersions.flatMap(({ writer, version, requests, failed }) => [
        [{ version, outcome: "served", writer }, requests - failed] as const,
        [{ version, outcome: "failed", writer }, failed] as const,
      ]),
    },
    {
      name: "dvo_forward_options_refused",
      type: "counter",
      help: "Calls of forward auth that were denied, because the options in X-Service-Token were not valid.",
      values: [...counts].map(([writer, { refusedOptions }]) => [{ writer }, refusedOptions] as const),
    },
    {
      name: "dvo_decisions",
      type: "counter",
      help: "Decisions about keys: by a lease of an isolate, by the guard of the key, or by a denial that an isolate remembered.",
      values: ofDecisions(({ lease, guard, denialCache }) => ({ lease, guard, denial_cache: denialCache }), "by"),
    },
    {
      name: "dvo_lease_units",
      type: "counter",
      help: "Units of leases that guards gave, that came back unused, and that did not come back in time.",
      values: ofDecisions(({ given, returned, wasted }) => ({ given, returned, wasted }), "outcome"),
    },
  ];
}

function metricsOf(status: DeploymentStatus, now: number): Metric[] {
  const { backlog, unknown } = status;
  const isKnown = (what: string) => !unknown.includes(what);
  const one = (value: number | null) => [[{}, value]] as const;
  const ofMain = (value: number) => one(isKnown("accounts and keys") ? value : null);
  const ofLog = (value: number) => one(isKnown("the log writers") ? value : null);
  // The counter of a log writer that does not respond is missing. In a sum over the log writers, it would look like an increase when it comes back.
  const lostBy = (count: (lost: Lost) => number) => [...status.log.lostBy].map(([writer, lost]) => [{ writer }, count(lost)] as const);
  return [
    { name: "dvo_accounts", help: "Accounts, including suspended accounts.", values: ofMain(status.accounts) },
    { name: "dvo_accounts_suspended", help: "Accounts that are suspended.", values: ofMain(status.suspended) },
    { name: "dvo_keys_live", help: "Keys that are active and not expired.", values: ofMain(status.liveKeys) },
    { name: "dvo_keys_unconfirmed", help: "Keys whose guard has not confirmed their latest change.", values: ofMain(status.waitingKeys) },
    {
      name: "dvo_secrets_missing",
      help: "Bindings for secrets of keys and webhooks that are empty or malformed.",
      values: one(status.missingSecrets.length),
    },
    {
      name: "dvo_deliveries_pending",
      help: "Deliveries that wait for an attempt. 100001 means more than 100000.",
      values: one(backlog?.pending ?? null),
    },
    {
      name: "dvo_deliveries_due",
      help: "Deliveries whose attempt is due, at most 1000 of each webhook.",
      values: one(backlog?.due ?? null),
    },
    {
      name: "dvo_deliveries_oldest_due_seconds",
      unit: "seconds",
      help: "How long the oldest due delivery has been due.",
      values: one(backlog && ageOf(backlog.oldestDueAt, now)),
    },
    { name: "dvo_webhooks_failing", help: "Webhooks whose latest attempts have failed.", values: one(backlog?.failingWebhooks ?? null) },
    { name: "dvo_webhooks_disabled", help: "Webhooks that are disabled.", values: one(backlog?.disabledWebhooks ?? null) },
    {
      name: "dvo_log_oldest_waiting_seconds",
      unit: "seconds",
      help: "Age of the oldest flush that its database has not confirmed.",
      values: ofLog(ageOf(status.log.oldestWaitingAt, now)),
    },
    {
      name: "dvo_log_head_entries",
      help: "Log entries in log writers that are in no flush yet.",
      values: ofLog(status.log.memtableEntries),
    },
    { name: "dvo_log_hinted_entries", help: "Log entries that wait for their log writer.", values: ofLog(status.log.hinted) },
    {
      name: "dvo_log_rejected_reports",
      type: "counter",
      help: "Reports that came too late for their log entry, or whose entry found no room.",
      values: lostBy(({ closedReports }) => closedReports),
    },
    {
      name: "dvo_log_rejected_entries",
      type: "counter",
      help: "Log entries that were older than their log.",
      values: lostBy(({ tooOld }) => tooOld),
    },
    {
      name: "dvo_log_unreadable_rows",
      help: "Rows of write-ahead logs that this release cannot read.",
      values: ofLog(status.log.unreadable),
    },
    {
      name: "dvo_log_dropped_entries",
      type: "counter",
      help: "Log entries that were dropped.",
      values: lostBy(({ dropped }) => dropped),
    },
    { name: "dvo_log_writers_unreachable", help: "Log writers that did not respond.", values: ofLog(status.log.unreachable.length) },
    {
      name: "dvo_database_size_bytes",
      unit: "bytes",
      help: "Size of a D1 database, which may have at most 10 GB.",
      values: status.databases.map(({ binding, bytes }) => [{ database: binding }, bytes]),
    },
    {
      name: "dvo_database_full",
      help: "Whether a database is full and accepts no more rows.",
      values: status.databases.map(({ binding, isFull }) => [{ database: binding }, Number(isFull)]),
    },
    {
      name: "dvo_job_age_seconds",
      unit: "seconds",
      help: "Seconds since the last run of a scheduled job.",
      values: status.jobs.map(({ name, ranAt }) => [{ scheduled_job: name }, ageOf(ranAt, now)]),
    },
    {
      name: "dvo_job_failed",
      help: "Whether the last run of a scheduled job failed.",
      values: status.jobs.map(({ name, error }) => [{ scheduled_job: name }, Number(error !== null)]),
    },
    {
      name: "dvo_sign_in_failures",
      type: "counter",
      help: "Wrong operator tokens and recovery codes that were sent, up to ten per minute from each source.",
      values: Object.entries(status.signInFailures).map(([credential, failures]) => [{ credential }, failures]),
    },
    { name: "dvo_unknown_parts", help: "Parts of this response that could not be read.", values: one(unknown.length) },
  ];
}

export const metrics = new Hono<TeamEnv>();

metrics.get("/metrics", async (c) => {
  const now = Date.now();
  const [status, counts] = await Promise.all([readDeploymentStatus(connect(c.env.DB), c.env, now), readCounts(c.env)]);
  const metrics = [...metricsOf(status, now), ...requestMetrics(counts)];
  const type = accepts(c, { header: "Accept", supports: Object.keys(contentTypes), default: "text/plain" }) as keyof typeof contentTypes;
  const text = metrics.map((each) => textOf(each, type === openMetrics)).join("");
  return c.body(type === openMetrics ? `${text}# EOF\n` : text, 200, { "Content-Type": contentTypes[type], Vary: "Accept" });
});
