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
import { routeIn } from "./described.ts";
import { type ReportAnswer, type ReportRequest, reportIn } from "./schemas.ts";

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

/**
 * Adds the responses that the team's own API has sent to the log entries of admitted requests. Returns one answer for each report, in order.
 * The first report of an entry wins. If a log writer cannot be reached, its reports get 503, and the caller can send them again.
 */
export async function report(env: Env, accountIds: readonly string[] | null, rows: readonly unknown[]): Promise<ReportAnswer[]> {
  const given = rows.map(reportIn);
  const now = Date.now();
  const signing = signingSecrets(env);
  const receipts = given.map(({ receipt }) => {
    const read = receiptOf(receipt, signing);
    return read && (accountIds?.includes(read.accountId) ?? true) ? read : null;
  });
  const answers: Outcome[] = receipts.map((receipt) =>
    receipt === null ? notSigned : timeOfId(receipt.entryId) < now - openMs ? outcomes.closed : notReached,
  );
  const waiting = [...given.keys()].filter((index) => answers[index] === notReached);
  const byWriter = Map.groupBy(waiting, (index) => receipts[index]?.logWriter ?? "");
  await Promise.all(
    [...byWriter].map(async ([logWriter, indexes]) => {
      const reports = indexes.map((index) => reportOf(receipts[index] as Receipt, given[index] as ReportRequest));
      try {
        const reported = await withDeadline(
          writerAt(env, logWriter).report(reports) as Promise<Reported[]>,
          timeoutMs,
          `Reporting to the log writer ${logWriter}`,
        );
        indexes.forEach((index, at) => {
          answers[index] = outcomes[reported[at] ?? "unavailable"];
        });
      } catch (error) {
        console.error(`the log writer ${logWriter} did not take ${indexes.length} reports:`, messagesOf(error));
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

const reportOf = (receipt: Receipt, { status, duration_ms, route }: ReportRequest): Report => ({
  entry: entryOf(receipt),
  status,
  durationMs: duration_ms,
  ...(route !== undefined && { route: maskSecrets(routeIn(route), 200) }),
});
