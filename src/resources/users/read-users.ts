import { and, desc, eq, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { isOneOf } from "../../db/is-one-of.ts";
import { newestFirst, type Page } from "../../db/page.ts";
import { Failure } from "../../errors/failure.ts";
import { users } from "./tables.ts";
import type { User } from "./user.ts";

export interface UserFilter {
  roles?: readonly User["role"][] | undefined;
  statuses?: readonly User["status"][] | undefined;
  /** Part of a name or an address, in any case. */
  q?: string | undefined;
}

/** Users of the account, newest first, from after the one with the id `after`. A filtered page looks at 2,000 at most. */
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
    // Not LIKE: D1 takes no pattern of more than 50 bytes.
    filter.q === undefined ? undefined : sql`instr(${users.searchText}, ${filter.q.toLowerCase()}) > 0`,
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

/** One user of the account. Throws `not_found`. */
export async function readUser({ db, actor }: ReadContext, id: string): Promise<User> {
  const [user] = await db
    .select()
    .from(users)
    .where(and(eq(users.accountId, actor.accountId), eq(users.id, id), isNull(users.deletionRequestedAt)));
  if (!user) throw new Failure("not_found", "There is no such user.");
  return user;
}
