import { type SQL, sql } from "drizzle-orm";
import { type Db, raw } from "../db/client.ts";
import { insertTotals } from "./store-totals.ts";
import { addEntry, type Talliable, type Tallies } from "./tallies.ts";

/** The requests of an hour or day that stay after older requests were deleted. Null if they are not known. The totals then stay as they are. */
interface Rest {
  start: number;
  entries: readonly Talliable[] | null;
}

/**
 * Returns the statements that delete the totals of an account from before an hour, and replace the totals of this hour and its day. `usesBefore`: last
 * uses with a lower id are deleted. `mayWrite`: an SQL condition for all statements.
 */
export function replaceTotals(
  db: Db,
  accountId: string,
  { hour, day, usesBefore }: { hour: Rest; day: Rest; usesBefore: string },
  mayWrite: SQL,
) {
  const replace = (table: "hour_totals" | "day_totals", { start, entries }: Rest) => {
    const tallies: Tallies = new Map();
    for (const entry of entries ?? []) addEntry(tallies, entry);
    const isOld = entries === null ? sql`start < ${start}` : sql`start <= ${start}`;
    return [
      raw(db, sql`DELETE FROM ${sql.raw(table)} WHERE account_id = ${accountId} AND ${isOld} AND ${mayWrite}`),
      ...(tallies.size === 0 ? [] : insertTotals(db, table, [{ accountId, start, tallies }], mayWrite)),
    ];
  };
  return [
    ...replace("hour_totals", hour),
    ...replace("day_totals", day),
    raw(
      db,
      sql`UPDATE last_uses SET uses = (SELECT json_group_array(json(value)) FROM json_each(uses) WHERE value ->> 1 >= ${usesBefore})
        WHERE account_id = ${accountId} AND ${mayWrite}`,
    ),
  ];
}
