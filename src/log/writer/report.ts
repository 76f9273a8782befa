import type { Db } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import type { Entry } from "../entry.ts";
import { searchSegments } from "../segments/read-segments.ts";
import { combine, justAfter } from "../segments/scan.ts";
import type { AccountLogs } from "./account-logs.ts";
import type { Report, Reported } from "./memtable.ts";
import { searchMemtable } from "./read-memtable.ts";
import type { LogState } from "./write-ahead-log.ts";

/** The number of entries that are looked for at the same time. */
const searchesAtOnce = 5;

/**
 * Completes open entries. Returns one outcome for each report. An entry that has not arrived yet is added. An entry that was flushed is not changed: its
 * reports are compared with it.
 */
export async function reportAll(
  { logs, db, now }: { logs: AccountLogs; db: Db; now: number },
  reports: readonly Report[],
): Promise<Reported[]> {
  const stateOf = ({ entry }: Report) => logs.of(entry.accountId).state;
  const flush = new Map<string, Entry>();
  const undecided = new Set<Report>();
  /** The states in which entries were looked for. If an account is flushed in the meantime, its entries are looked for again. */
  const searched = new Map<Report, LogState>();
  const mayBeFlushed = (report: Report) => {
    const { entry } = report;
    const isDecided = flush.has(entry.id) || undecided.has(report) || searched.get(report) === stateOf(report);
    return !isDecided && !logs.get(entry) && entry.id <= stateOf(report).highestId;
  };
  for (let some = reports.filter(mayBeFlushed); some.length > 0; some = reports.filter(mayBeFlushed)) {
    const searches = some.slice(0, searchesAtOnce).map(async (report) => {
      searched.set(report, stateOf(report));
      try {
        const entry = await findFlush({ logs, db }, report.entry);
        if (entry) flush.set(entry.id, entry);
      } catch (error) {
        console.error("cannot look for a reported entry in D1:", messagesOf(error));
        undecided.add(report);
      }
    });
    await Promise.all(searches);
  }
  const decided = reports.filter((report) => !undecided.has(report));
  const outcomes = logs.report(decided, { flush, now });
  return reports.map((report) => outcomes[decided.indexOf(report)] ?? "unavailable");
}

/** Returns an entry that was flushed, or null if there is none. Searches the pending flushes first: D1 may store one of them in the meantime. */
async function findFlush({ logs, db }: { logs: AccountLogs; db: Db }, { accountId, id }: Entry): Promise<Entry | null> {
  const query = { filter: {}, before: justAfter(id), from: id, limit: 1 };
  const waiting = await searchMemtable(logs, logs.of(accountId), query);
  const [entry] = combine([waiting, await searchSegments(db, accountId, query)], 1).entries;
  return entry ?? null;
}
