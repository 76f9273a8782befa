import { and, eq, exists, sql } from "drizzle-orm";
import type { Precondition, Writing } from "../accounts/actor.ts";
import { type Db, newRevision } from "../db/client.ts";
import { isDanglingReference, isDuplicate } from "../db/failures.ts";
import { laterThan, lost, untilWon, wrote } from "../db/race.ts";
import { events, users } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { newId } from "../ids.ts";
import { unassignTasks } from "../tasks/unassign-tasks.ts";
import { readUser } from "./read-users.ts";
import { type NewUser, searchable, type User } from "./user.ts";
import { userCreated, userDeleted, userUpdated } from "./user-events.ts";

export type UserPatch = Partial<Pick<User, "name" | "email" | "role" | "status">>;

/** Makes a user. Throws `conflict` where the account has one with this address, in whatever case. */
export async function createUser({ db, actor, now, commit }: Writing, input: NewUser): Promise<User> {
  const user: User = {
    id: newId("usr", now),
    accountId: actor.accountId,
    name: input.name,
    email: input.email,
    ...searchable(input),
    role: input.role ?? "member",
    status: input.status ?? "active",
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  await orConflict(commit({ result: user, events: [userCreated(user, now)], statements: [db.insert(users).values(user)] }));
  return user;
}

/** Changes the members that `patch` has. Throws `not_found`, `precondition_failed` and `conflict`. */
export function changeUser(writing: Writing, id: string, patch: UserPatch, holds: Precondition): Promise<User> {
  const { db, now, commit } = writing;
  return untilWon(async () => {
    const before = await readHeld(writing, id, holds);
    if (Object.keys(patch).length === 0) return before;
    const changed = { ...before, ...patch };
    const after = { ...changed, ...searchable(changed), revision: newRevision(), updatedAt: laterThan(before, now) };
    const [written] = await orConflict(
      commit({
        result: after,
        events: [userUpdated(after, now)],
        statements: [db.update(users).set(after).where(isAsRead(before)).returning({ id: users.id })],
        when: isThere(db, before),
      }),
    );
    return wrote(written) ? after : lost;
  });
}

/** Deletes a user and leaves its tasks without an assignee. Throws `not_found` and `precondition_failed`. */
export function deleteUser(writing: Writing, id: string, holds: Precondition): Promise<void> {
  const { db, now, commit } = writing;
  return untilWon(async () => {
    const before = await readHeld(writing, id, holds);
    const told = userDeleted(before, now);
    // The event is there only where all that follows was decided on what is still so.
    const isTold = exists(
      db
        .select({ id: events.id })
        .from(events)
        .where(and(eq(events.accountId, told.accountId), eq(events.id, told.id))),
    );
    const unassigned = await unassignTasks(writing, id, isTold);
    const removed = db
      .delete(users)
      .where(and(isAsRead(before), isTold))
      .returning({ id: users.id });
    try {
      const outcomes = await commit({
        result: null,
        events: [...unassigned.events, told],
        statements: [...unassigned.statements, removed],
        when: sql.join([isThere(db, before), ...unassigned.unchanged], sql.raw(" AND ")),
      });
      return wrote(outcomes.at(-1)) ? undefined : lost;
    } catch (error) {
      // A task was given to the user since its tasks were read.
      if (isDanglingReference(error)) return lost;
      throw error;
    }
  });
}

async function readHeld(writing: Writing, id: string, holds: Precondition): Promise<User> {
  const user = await readUser(writing, id);
  if (!holds(user.revision)) throw new Failure("precondition_failed", "The user has changed since the version that If-Match names.");
  return user;
}

const isThere = (db: Db, user: User) => exists(db.select({ id: users.id }).from(users).where(isAsRead(user)));

const isAsRead = (user: User) => and(eq(users.accountId, user.accountId), eq(users.id, user.id), eq(users.revision, user.revision));

async function orConflict<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (!isDuplicate(error, "users.account_id, users.email_key")) throw error;
    throw new Failure("conflict", "A user with this email address exists already.", {
      faults: [{ pointer: "/email", code: "duplicate", detail: "Another user has this address." }],
      cause: error,
    });
  }
}
