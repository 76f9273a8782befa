import { and, desc, eq, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { isOneOf } from "../../db/is-one-of.ts";
import { newestFirst, type Page } from "../../db/page.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { folded } from "../../lib/inputs/fold.ts";
import { users } from "./tables.ts";
import type { User } from "./user.ts";

export interface UserFilter {
  roles?: readonly User["role"][] | undefined;
  statuses?: readonly User["status"][] | undefined;
  /** Text that the name or the email address must contain. The search ignores upper and lower case. */
  q?: string | undefined;
}

/**
 * Returns users of the account, newest first. If `after` is given, the page starts after the user with that id. If a filter is set, one
 * page scans at most 2,000 users.
 */
export function listUsers(
  { db, actor }: ReadContext,
  { filter, after, limit }: { filter: UserFilter; after?: string | undefined; limit: number },
): Promise<Page<User, string>> {
  const range = and(
    eq(users.accountId, actor.accountId),
    isNull(users.deletionRequestedAt),
    after === undefined ? undefined : lt(users.id, after),
  );
  const matches = and(
    isOneOf(users.role, filter.roles),
    isOneOf(users.status, filter.statuses),
    // The query does not use `LIKE`, because D1 limits `LIKE` patterns to 50 bytes.
    filter.q === undefined ? undefined : sql`instr(${users.searchText}, ${folded(filter.q)}) > 0`,
  );
  const rows = (where: SQL | undefined) =>
    db
      .select()
      .from(users)
      .where(where)
      .orderBy(desc(users.id))
      .limit(limit + 1);
  return newestFirst(db, users, { range, matches, limit, rows });
}

/** Returns one user of the account. Throws `not_found`. */
export async function readUser({ db, actor }: ReadContext, id: string): Promise<User> {
  const [user] = await db
    .select()
    .from(users)
    .where(and(eq(users.accountId, actor.accountId), eq(users.id, id), isNull(users.deletionRequestedAt)));
  if (!user) throw new Failure("not_found", "There is no such user.");
  return user;
}
