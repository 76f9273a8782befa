import { type Command, counted, type Given, plain, print } from "./command.ts";

/** `operator status`: everything that a person should see first, on one screen. */
export const status: Command = {
  form: "",
  what: "show the state of the deployment, and what needs a person",
  args: 0,
  run: showStatus,
};

const size = (bytes: number) => (bytes < 1e8 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);

/** Returns how long ago a time was, for example `3 min`. */
function ago(time: string | null): string {
  if (time === null) return "never";
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

interface NearLimit {
  account_id: string;
  name: string;
  key_id: string | null;
  limit: "hour" | "day" | "month" | "storage";
  used_percent: number;
}

async function showStatus(given: Given): Promise<void> {
  const { body } = await given.client.call("GET", "/status");
  const lines: [what: string, now: string][] = [
    ["Version", body.version === null ? `${body.release}, on this machine` : `${body.release}, ${body.version}`],
    ["Accounts", `${body.accounts ?? "unknown"}${body.suspended_accounts > 0 ? `, ${body.suspended_accounts} suspended` : ""}`],
    [
      "Live keys",
      `${body.live_keys ?? "unknown"}${body.waiting_keys > 0 ? `, ${body.waiting_keys} with a change that is not active yet` : ""}`,
    ],
    ...body.databases.map((each: { name: string; bytes: number; bytes_left: number }): [string, string] => [
      `Database ${each.name}`,
      `${size(each.bytes)}, room for ${size(each.bytes_left)}`,
    ]),
    [
      "Request log",
      `${body.log.head_entries} ${body.log.head_entries === 1 ? "entry" : "entries"} in log writers${body.log.oldest_waiting_at === null ? "" : `, the oldest flush has been waiting for ${ago(body.log.oldest_waiting_at)}`}${body.log.dropped_entries > 0 ? `, ${body.log.dropped_entries} dropped` : ""}`,
    ],
    ["Leases", body.decided_by_lease_percent === null ? "none yet" : `decided ${body.decided_by_lease_percent} % of the requests`],
    [
      "Deliveries",
      body.deliveries === null
        ? "unknown"
        : `${body.deliveries.pending} pending, ${body.deliveries.due} due${body.deliveries.oldest_due_at === null ? "" : `, the oldest for ${ago(body.deliveries.oldest_due_at)}`}, ${counted(body.deliveries.failing_webhooks, "failing webhook")}`,
    ],
    [
      "Scheduled jobs",
      body.unknown.includes("the scheduled jobs")
        ? "unknown"
        : `ran ${body.jobs_ran_at === null ? "never" : `${ago(body.jobs_ran_at)} ago`}${body.failing_jobs.length > 0 ? `, ${counted(body.failing_jobs.length, "failing job")}` : ""}`,
    ],
    ...body.near_limits.map((each: NearLimit): [string, string] => [
      "Near its limit",
      `${each.key_id === null ? "" : `${each.key_id} of `}${each.account_id} (${plain(each.name)}): ${each.used_percent} % of ${each.limit === "storage" ? "its storage" : `this ${each.limit}`}`,
    ]),
    ...(body.near_limits_found > body.near_limits.length
      ? [["", `and ${body.near_limits_found - body.near_limits.length} more`] as [string, string]]
      : []),
    ...body.unknown.map((what: string): [string, string] => ["Unknown", what]),
  ];
  const width = Math.max(...lines.map(([what]) => what.length));
  const attention = body.needs_attention.map(
    (each: { severity: string; name: string; summary: string; runbook: string }) =>
      `  ${each.severity === "page" ? "NOW  " : "later"}  ${each.name}: ${plain(each.summary)} ${each.runbook}`,
  );
  const text = [
    ...lines.map(([what, now]) => `${what.padEnd(width)}  ${now}`),
    "",
    ...(attention.length === 0 ? ["Nothing needs a person."] : ["Needs a person:", ...attention]),
  ];
  await print(given, body, () => text.join("\n"));
}
