import { and, eq, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { jsonRows, newRevision, raw, type Statement } from "../db/client.ts";
import { laterThan } from "../db/race.ts";
import { tasks } from "../db/schema.ts";
import type { Event } from "../webhooks/event.ts";
import { eventsOfTask } from "./task-events.ts";

/**
 * What leaves the tasks of a user without an assignee, for the batch that deletes it: the statements, which do nothing unless
 * `when` holds, and the events. A task that changes meanwhile keeps its assignee, so that the user cannot be deleted.
 */
export async function unassignTasks(
  { db, actor, now }: Reading,
  userId: string,
  when: SQL,
): Promise<{ statements: Statement[]; events: Event[] }> {
  const assigned = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.assigneeId, userId)));
  const changes = assigned.map((before) => {
    const after = { ...before, assigneeId: null, revision: newRevision(), updatedAt: laterThan(before, now) };
    return { before, after };
  });
  const rows = changes.map(({ before, after }) => [before.id, before.revision, after.revision, after.updatedAt]);
  const statements = jsonRows(rows).map((changed) =>
    raw(
      db,
      sql`UPDATE tasks SET assignee_id = NULL, revision = change.value ->> 2, updated_at = change.value ->> 3
      FROM json_each(${changed}) AS change
      WHERE account_id = ${actor.accountId} AND tasks.id = change.value ->> 0 AND revision = change.value ->> 1 AND ${when}`,
    ),
  );
  return { statements, events: changes.flatMap(({ before, after }) => eventsOfTask(before, after, now)) };
}
