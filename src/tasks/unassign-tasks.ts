import { and, eq, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { jsonRows, newRevision, raw, type Statement } from "../db/client.ts";
import { laterThan } from "../db/race.ts";
import { tasks } from "../db/schema.ts";
import type { Event } from "../webhooks/event.ts";
import { eventsOfTask } from "./task-events.ts";

/**
 * What leaves the tasks of a user without an assignee, for the batch that deletes it: the events, the condition that every task
 * is still as it was read, and the statements. The condition no longer holds once the first of them has run, so they ask for
 * `isDecided` instead, which the caller makes true in D1 where it did.
 */
export async function unassignTasks(
  { db, actor, now }: Reading,
  userId: string,
  isDecided: SQL,
): Promise<{ events: Event[]; unchanged: SQL[]; statements: Statement[] }> {
  const assigned = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.assigneeId, userId)));
  const changes = assigned.map((before) => {
    const after = { ...before, assigneeId: null, revision: newRevision(), updatedAt: laterThan(before, now) };
    return { before, after };
  });
  const unchanged = jsonRows(changes.map(({ before }) => [before.id, before.revision])).map(
    (read) => sql`NOT EXISTS (SELECT 1 FROM json_each(${read}) AS read WHERE NOT EXISTS
      (SELECT 1 FROM tasks WHERE account_id = ${actor.accountId} AND id = read.value ->> 0 AND revision = read.value ->> 1))`,
  );
  const statements = jsonRows(changes.map(({ after }) => [after.id, after.revision, after.updatedAt])).map((changed) =>
    raw(
      db,
      sql`UPDATE tasks SET assignee_id = NULL, revision = change.value ->> 1, updated_at = change.value ->> 2
      FROM json_each(${changed}) AS change
      WHERE account_id = ${actor.accountId} AND tasks.id = change.value ->> 0 AND ${isDecided}`,
    ),
  );
  return { events: changes.flatMap(({ before, after }) => eventsOfTask(before, after, now)), unchanged, statements };
}
