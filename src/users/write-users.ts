import { and, eq, exists, sql } from "drizzle-orm";
import type { Precondition, Writing } from "../accounts/actor.ts";
import { newRevision } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { laterThan, lost, untilWon, wrote } from "../db/race.ts";
import { tasks, users } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { newId } from "../ids.ts";
import { readUser } from "./read-users.ts";
import { type NewUser, searchable, type User } from "./user.ts";

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
  await orConflict(commit({ result: user, statements: [db.insert(users).values(user)] }));
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
      commit({ result: after, statements: [db.update(users).set(after).where(isAsRead(before)).returning({ id: users.id })] }),
    );
    return wrote(written) ? after : lost;
  });
}

/** Deletes a user and leaves its tasks without an assignee. Throws `not_found` and `precondition_failed`. */
export function deleteUser(writing: Writing, id: string, holds: Precondition): Promise<void> {
  const { db, actor, now, commit } = writing;
  return untilWon(async () => {
    const before = await readHeld(writing, id, holds);
    const isThere = exists(db.select({ id: users.id }).from(users).where(isAsRead(before)));
    const [, deleted] = await commit({
      result: null,
      statements: [
        db
          .update(tasks)
          .set({ assigneeId: null, updatedAt: sql`max(${now}, ${tasks.updatedAt} + 1)`, revision: sql`lower(hex(randomblob(8)))` })
          .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.assigneeId, id), isThere)),
        db.delete(users).where(isAsRead(before)).returning({ id: users.id }),
      ],
    });
    return wrote(deleted) ? undefined : lost;
  });
}

async function readHeld(writing: Writing, id: string, holds: Precondition): Promise<User> {
  const user = await readUser(writing, id);
  if (!holds(user.revision)) throw new Failure("precondition_failed", "The user has changed since the version that If-Match names.");
  return user;
}

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
