import { newRevision } from "../../db/client.ts";
import { differing, isEmpty } from "../../db/differing.ts";
import { isDuplicate } from "../../db/failures.ts";
import { asRead, isUnchanged, nextVersion, type Precondition, retry, withOptimisticLock, wrote } from "../../db/optimistic-locking.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { userCreated, userUpdated } from "./events.ts";
import { readUser } from "./read-users.ts";
import { users } from "./tables.ts";
import { type NewUser, searchable, type User } from "./user.ts";

export type UserPatch = Partial<Pick<User, "name" | "email" | "role" | "status">>;

/**
 * Creates a user. Throws `conflict` if the account already has a user with this email address. The comparison ignores upper and lower case.
 * Throws `limit_reached` if the account cannot store another user.
 */
export async function createUser({ db, actor, now, commit }: WriteContext, input: NewUser): Promise<User> {
  const user: User = {
    id: newId("usr", now),
    accountId: actor.accountId,
    name: input.name,
    email: input.email,
    ...searchable(input),
    role: input.role ?? "member",
    status: input.status ?? "active",
    deletionRequestedAt: null,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  await orConflict(
    commit({
      result: user,
      events: [userCreated(user, now)],
      adds: [{ accountId: actor.accountId, what: "users" }],
      statements: { made: db.insert(users).values(user) },
    }),
  );
  return user;
}

/**
 * Updates a user with the values in `patch`. If all values are unchanged, writes nothing. Throws `not_found`, `precondition_failed` and
 * `conflict`.
 */
export function changeUser(context: WriteContext, id: string, patch: UserPatch, precondition: Precondition): Promise<User> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readUser(context, id), precondition, name: "user" }, async (before) => {
    const changes = differing(patch, before);
    if (isEmpty(changes)) return before;
    const changed = { ...before, ...changes };
    const after = { ...changed, ...searchable(changed), ...nextVersion(before, now) };
    const { updated } = await orConflict(
      commit({
        result: after,
        events: [userUpdated(before, after, now)],
        statements: { updated: db.update(users).set(after).where(asRead(users, before)).returning({ id: users.id }) },
        when: isUnchanged(db, users, before),
      }),
    );
    return wrote(updated) ? after : retry;
  });
}

async function orConflict<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (!isDuplicate(error, "users.account_id, users.email_key")) throw error;
    throw new Failure("conflict", "A user with this email address already exists.", {
      fieldErrors: [{ pointer: "/email", code: "duplicate", detail: "This is already the email address of another user." }],
      cause: error,
    });
  }
}
