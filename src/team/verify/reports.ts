import { maskSecrets } from "../../credentials/mask-keys.ts";
import { type Receipt, receiptOf } from "../../credentials/receipt.ts";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { messagesOf } from "../../db/failures.ts";
import { timeOfId } from "../../lib/ids.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { type Entry, notRecorded, openMs } from "../../log/entry.ts";
import type { Report, Reported } from "../../log/writer/memtable.ts";
import { writerAt } from "../../log/writers.ts";
import type { ReportAnswer } from "./answers.ts";
import { routeIn } from "./described.ts";
import { type ReportRequest, reportIn } from "./schemas.ts";

const timeoutMs = 5 * secondMs;

type Outcome = Omit<ReportAnswer, "index">;

const outcome = (status: Outcome["status"], code: Outcome["code"]): Outcome => ({ status, code });

export const notSigned = outcome(422, "invalid_receipt");
const notReached = outcome(503, "unavailable");
export const outcomes: Record<Reported, Outcome> = {
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

/** Sends reports to the log writers of their entries. Returns one answer for each, in order. */
export async function store(env: Env, given: readonly (Outcome | Due)[]): Promise<ReportAnswer[]> {
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
export const entryOf = ({ entryId: id, logWriter: _, ...receipt }: Receipt): Entry => ({
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

export const reportOf = (entry: Entry, { status, duration_ms, route }: Omit<ReportRequest, "status"> & Pick<Report, "status">): Report => ({
  entry,
  status,
  durationMs: duration_ms,
  ...(route !== undefined && { route: maskSecrets(routeIn(route), 200) }),
});
