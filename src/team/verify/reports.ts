import { maskPath, maskSecrets } from "../../credentials/mask-keys.ts";
import { leaseReceiptOf, type Receipt, receiptOf } from "../../credentials/receipt.ts";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { messagesOf } from "../../db/failures.ts";
import { timeOfId } from "../../lib/ids.ts";
import { minuteMs, secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { type Entry, notRecorded, openMs } from "../../log/entry.ts";
import type { Report, Reported } from "../../log/writer/memtable.ts";
import { writerAt } from "../../log/writers.ts";
import type { ReportAnswer } from "./answers.ts";
import { describedIn, routeIn } from "./described.ts";
import { leaseUses } from "./lease-uses.ts";
import { type ReportRequest, reportIn } from "./schemas.ts";

const timeoutMs = 5 * secondMs;

type Outcome = Omit<ReportAnswer, "index">;

const outcome = (status: Outcome["status"], code: Outcome["code"]): Outcome => ({ status, code });

const notSigned = outcome(422, "invalid_receipt");
const notReached = outcome(503, "unavailable");
const outcomes: Record<Reported, Outcome> = {
  completed: outcome(200, null),
  different: outcome(409, "conflict"),
  closed: outcome(422, "expired_receipt"),
  unavailable: notReached,
};

/** A report on its way to the log writer of its entry. */
interface Due {
  logWriter: string;
  report: Report;
}

/**
 * Adds the responses that the team's own API has sent to the log entries of admitted requests. Returns one answer for each report, in order.
 * The first report of an entry wins. If a log writer cannot be reached, its reports get 503, and the caller can send them again.
 */
export function report(env: Env, accountIds: readonly string[] | null, rows: readonly unknown[]): Promise<ReportAnswer[]> {
  const now = Date.now();
  const signing = signingSecrets(env);
  return store(
    env,
    rows.map(reportIn).map((given) => {
      const receipt = receiptOf(given.receipt, signing);
      if (receipt === null || !(accountIds?.includes(receipt.accountId) ?? true)) return notSigned;
      if (timeOfId(receipt.entryId) < now - openMs) return outcomes.closed;
      return { logWriter: receipt.logWriter, report: reportOf(entryOf(receipt), given) };
    }),
  );
}

/** A process of the team that holds leases. `issuer`: the token that the leases were given to. */
export interface Holder {
  issuer: string;
  accountIds: readonly string[] | null;
}

/**
 * Adds the requests that a process of the team has decided by its leases to the log. Returns one answer for each entry, in order. An entry is stored once. It is
 * 422 if its lease was not given to the token of the caller, or has no units left.
 */
export function storeEntries(env: Env, { issuer, accountIds }: Holder, rows: readonly unknown[]): Promise<ReportAnswer[]> {
  const now = Date.now();
  const signing = signingSecrets(env);
  return store(
    env,
    rows.map((row) => {
      const { id, lease: text, ...request } = (row ?? {}) as Record<string, unknown>;
      const lease = leaseReceiptOf(typeof text === "string" ? text : "", signing);
      const isOwn = lease?.issuer === issuer && (accountIds?.includes(lease.accountId) ?? true);
      if (!lease || !isOwn || typeof id !== "string" || !/^req_[0-9a-f]{12}7[0-9a-f]{19}$/.test(id)) return notSigned;
      const { method = "-", path = "-", route = "-", ip, user_agent: userAgent, cost = 1 } = describedIn(request);
      if (!leaseUses.use(lease, id, cost, now)) return notSigned;
      const { accountId, logWriter, keyId, secret } = lease;
      const about = { method, path: maskPath(path), route: maskSecrets(route, 200), ip: ip || null, cost: cost === 1 ? null : cost };
      const entry = entryOf({ accountId, logWriter, entryId: withTime(id, now), keyId, ...about, counted: true, secret });
      return { logWriter, report: reportOf({ ...entry, userAgent: userAgent ?? null }, reportIn({ ...request, route: undefined })) };
    }),
  );
}

/** Returns an id whose time is at most a minute ago, and not later than now. */
function withTime(id: string, now: number): string {
  const time = Math.min(now, Math.max(now - minuteMs, timeOfId(id)));
  return `req_${time.toString(16).padStart(12, "0")}${id.slice("req_".length + 12)}`;
}

async function store(env: Env, given: readonly (Outcome | Due)[]): Promise<ReportAnswer[]> {
  const answers: Outcome[] = given.map((each) => ("report" in each ? notReached : each));
  const due = given.flatMap((each, index) => ("report" in each ? [{ ...each, index }] : []));
  await Promise.all(
    [...Map.groupBy(due, ({ logWriter }) => logWriter)].map(async ([logWriter, dues]) => {
      try {
        const asked = writerAt(env, logWriter).report(dues.map((each) => each.report)) as Promise<Reported[]>;
        const reported = await withDeadline(asked, timeoutMs, `Reporting to the log writer ${logWriter}`);
        dues.forEach(({ index }, at) => {
          answers[index] = outcomes[reported[at] ?? "unavailable"];
        });
      } catch (error) {
        console.error(`the log writer ${logWriter} did not take ${dues.length} reports:`, messagesOf(error));
      }
    }),
  );
  return answers.map((outcome, index) => ({ index, ...outcome }));
}

/** Returns the open entry of a request that was admitted. The isolate that has admitted it may have ended before it sent this entry. */
const entryOf = ({ entryId: id, logWriter: _, ...receipt }: Receipt): Entry => ({
  ...notRecorded,
  ...receipt,
  id,
  status: null,
  durationMs: null,
  country: null,
  userAgent: null,
  errorCode: null,
  admitted: true,
  count: 1,
});

const reportOf = (entry: Entry, { status, duration_ms, route }: ReportRequest): Report => ({
  entry,
  status,
  durationMs: duration_ms,
  ...(route !== undefined && { route: maskSecrets(routeIn(route), 200) }),
});
