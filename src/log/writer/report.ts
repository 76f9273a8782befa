import type { Db } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import type { Entry } from "../entry.ts";
import { entriesInSegments } from "../segments/read-segments.ts";
import type { AccountLogs } from "./account-logs.ts";
import { type Report, type Reported, reportedOn } from "./head.ts";
import { entriesInWaitingCuts } from "./read-head.ts";

/**
 * Completes open entries. Returns one outcome for each report. A report that arrives before its entry waits for it. An entry that was cut is not
 * changed: its reports are compared with it.
 */
export async function reportAll(
  { logs, db, now }: { logs: AccountLogs; db: Db; now: number },
  reports: readonly Report[],
): Promise<Reported[]> {
  const mayBeCut = reports.filter((report) => logs.get(report) === undefined && report.id <= logs.of(report.accountId).state.highestId);
  const others = reports.filter((report) => !mayBeCut.includes(report));
  const outcomes = new Map(zip(others, logs.report(others, now)));
  const cut = await findInCuts({ logs, db }, mayBeCut);
  const notFound = mayBeCut.filter(({ id }) => !cut.has(id));
  for (const [report, outcome] of zip(notFound, logs.report(notFound, now))) outcomes.set(report, outcome);
  return reports.map((report) => {
    const entry = cut.get(report.id);
    return outcomes.get(report) ?? (entry ? reportedOn(entry, report) : "unknown");
  });
}

/** Looks for the entries of reports in waiting cuts and in D1. If D1 does not respond, the entries count as not found, and their reports wait. */
async function findInCuts({ logs, db }: { logs: AccountLogs; db: Db }, reports: readonly Report[]): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>();
  for (const [accountId, own] of Map.groupBy(reports, (report) => report.accountId)) {
    const ids = own.map(({ id }) => id);
    for (const [id, entry] of entriesInWaitingCuts(logs, logs.of(accountId), ids)) found.set(id, entry);
    try {
      for (const [id, entry] of await entriesInSegments(db, accountId, ids)) found.set(id, entry);
    } catch (error) {
      console.error(`cannot look for ${ids.length} reported entries of ${accountId} in D1:`, messagesOf(error));
    }
  }
  return found;
}

const zip = <One, Other>(some: readonly One[], others: readonly Other[]) =>
  some.flatMap((one, at) => {
    const other = others[at];
    return other === undefined ? [] : [[one, other] as const];
  });
