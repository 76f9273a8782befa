import { and, asc, eq, sql } from "drizzle-orm";
import { passkeys } from "../db/areas/identity/tables.ts";
import { isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { isOneTooMany, maxOwn, mayStoreOwn } from "./audit/own-sign-in.ts";
import type { Member } from "./member.ts";
import { type Acting, endSessionsWith } from "./sessions.ts";
import type { NewPasskey, Passkey } from "./webauthn.ts";

/** The maximum number of passkeys of a member. */
export const maxPasskeys = 20;

/** Returns the passkeys of a member, oldest first. */
export const listPasskeys = (db: Db, memberId: string): Promise<Passkey[]> =>
  db.select().from(passkeys).where(eq(passkeys.memberId, memberId)).orderBy(asc(passkeys.createdAt));

export const takenPasskey = (cause: unknown) =>
  new Failure("conflict", "This passkey is registered already. Create a new passkey, or use another device.", { cause });

const mayHaveMore = "the member may have one more passkey";

/** Returns the id of a passkey for the audit log. The id is a hash, because a credential id can be long. */
const auditIdOf = ({ id }: Pick<Passkey, "id">): string => hashOf(id).slice(0, 32);

/**
 * Adds a passkey to a member. Throws `conflict` if the passkey is already registered. Throws `limit_reached` if the member has the maximum
 * number of passkeys. Also throws `limit_reached` if the member added too many passkeys in the last 24 hours.
 */
export async function addPasskey(context: WriteContext, member: Pick<Member, "id">, passkey: NewPasskey): Promise<void> {
  const { db, now, commit } = context;
  await commit({
    events: [],
    audit: [auditEntry(context, "passkey.added", { type: "passkey", id: auditIdOf(passkey), name: passkey.name })],
    statements: {
      required: requireInBatch(
        db,
        { holds: sql`(SELECT count(*) FROM passkeys WHERE member_id = ${member.id}) < ${maxPasskeys}`, name: mayHaveMore },
        mayStoreOwn(context, "passkey.added"),
      ),
      added: db.insert(passkeys).values({ ...passkey, memberId: member.id, lastUsedAt: null, createdAt: now }),
    },
  }).catch((error: unknown) => {
    if (isFailedCondition(error, mayHaveMore))
      throw new Failure("limit_reached", `You may have ${maxPasskeys} passkeys. Remove a passkey that you no longer use.`, {
        cause: error,
      });
    if (isOneTooMany(error, "passkey.added"))
      throw new Failure("limit_reached", `You added ${maxOwn["passkey.added"]} passkeys in 24 hours. Try again tomorrow.`, {
        cause: error,
      });
    throw isDuplicate(error, "passkeys.id") ? takenPasskey(error) : error;
  });
}

/**
 * Removes a passkey of the acting member, and ends the sessions that were opened or last confirmed with the passkey (`endSessionsWith`).
 * Throws `not_found` if the member has no such passkey. Throws `conflict` if the passkey is the member's last passkey.
 */
export async function removePasskey(context: WriteContext, acting: Acting, id: string): Promise<void> {
  const { member } = acting;
  const { db, commit } = context;
  const [own] = await db
    .select()
    .from(passkeys)
    .where(and(eq(passkeys.id, id), eq(passkeys.memberId, member.id)));
  if (!own) throw new Failure("not_found", "There is no such passkey.");
  const when = sql`(SELECT count(*) FROM passkeys WHERE member_id = ${member.id}) > 1 AND EXISTS (SELECT 1 FROM passkeys WHERE id = ${id})`;
  const { removed } = await commit({
    whenFull: "write",
    events: [],
    audit: [auditEntry(context, "passkey.removed", { type: "passkey", id: auditIdOf(own), name: own.name })],
    statements: {
      sessions: endSessionsWith(db, acting, sql`${id}`, when),
      removed: db
        .delete(passkeys)
        .where(and(eq(passkeys.id, id), eq(passkeys.memberId, member.id), when))
        .returning({ id: passkeys.id }),
    },
    when,
  });
  if (!wrote(removed)) throw new Failure("conflict", "This is your last passkey. Add another passkey first.");
}
