import { and, desc, eq, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { type Page, pageFrom, scannedAtOnce } from "../db/page.ts";
import { users } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";
import type { User } from "./user.ts";

export interface UserFilter {
  role?: User["role"] | undefined;
  status?: User["status"] | undefined;
  /** Part of a name or an address, in any case. */
  q?: string | undefined;
}

/** Users of the account, newest first, from after the one with the id `after`. A filtered page looks at 2,000 at most. */
export async function listUsers(
  { db, actor }: Reading,
  { filter, after, limit }: { filter: UserFilter; after?: string | undefined; limit: number },
): Promise<Page<User, string>> {
  const range = and(
    eq(users.accountId, actor.accountId),
    isNull(users.deletionRequestedAt),
    after === undefined ? undefined : lt(users.id, after),
  );
  const matches = and(
    filter.role && eq(users.role, filter.role),
    filter.status && eq(users.status, filter.status),
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
  if (!matches) return pageFrom(await rows(range), limit, idOf);
  const last = db
    .select({ id: users.id })
    .from(users)
    .where(range)
    .orderBy(desc(users.id))
    .limit(1)
    .offset(scannedAtOnce - 1);
  const [found, [lastScanned]] = await db.batch([rows(and(range, matches, sql`${users.id} >= coalesce((${last}), '')`)), last]);
  return pageFrom(found, limit, idOf, lastScanned?.id);
}

const idOf = ({ id }: User) => id;

/** One user of the account. Throws `not_found`. */
export async function readUser({ db, actor }: Reading, id: string): Promise<User> {
  const [user] = await db
    .select()
    .from(users)
    .where(and(eq(users.accountId, actor.accountId), eq(users.id, id), isNull(users.deletionRequestedAt)));
  if (!user) throw new Failure("not_found", "There is no such user.");
  return user;
}
