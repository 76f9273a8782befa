import { and, eq, gte, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { newSecretKey, type SigningSecret } from "../credentials/key-format.ts";
import { audit } from "../db/areas/audit/tables.ts";
import { messagesOf } from "../db/failures.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { errorsOf, Failure } from "../lib/errors/failure.ts";
import { idBound } from "../lib/ids.ts";
import { minuteMs } from "../lib/time/clock.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { statusOf } from "./key.ts";
import { readKeyRow } from "./read-keys.ts";

const lifetimeMs = 10 * minuteMs;

/**
 * Returns another secret of an active key, with which a member tries the API from a page. It is valid for ten minutes, and ends earlier with the key, its secret,
 * a new scope of the key, or the access of the member. `mayHave`: throws if the member may not have a key with some scopes. Throws `not_found`, `conflict` if the
 * key is not active, and `unavailable` if its guard does not respond.
 */
export async function makeTemporarySecret(
  context: WriteContext & { guards: Guards; signing: () => SigningSecret },
  id: string,
  mayHave: (scopes: readonly string[]) => void,
): Promise<{ secretKey: string; until: number }> {
  const { actor, now, guards } = context;
  const key = await readKeyRow(context, id);
  mayHave(key.scopes);
  if (statusOf(key, now) !== "active") throw new Failure("conflict", "Only an active key can send requests.");
  const secretKey = newSecretKey(id, context.signing());
  const until = now + lifetimeMs;
  const memberId = actor.by.type === "member" ? actor.by.id : null;
  // If the member may no longer do this, the commit fails, and nobody ever sees the secret.
  await callGuard(guards, id, (guard) => guard.addTemporarySecret({ secretHash: hashOf(secretKey), scopes: key.scopes, memberId, until }));
  await context.commit({
    events: [],
    audit: [auditEntry(context, "key.temporary_secret_made", { type: "key", id, name: key.name })],
    statements: {},
  });
  return { secretKey, until };
}

/**
 * Ends all temporary secrets of members whose access has ended or changed. If a guard does not respond, a secret of its key is left, which ends after ten
 * minutes: a member must be able to sign out, and can be removed.
 */
export async function endTemporarySecretsOf(
  { db, actor, now, guards }: ReadContext & { guards: Guards },
  memberIds: readonly string[],
): Promise<void> {
  const ended = await db
    .selectDistinct({ keyId: audit.targetId, memberId: sql<string>`${audit.actorId}` })
    .from(audit)
    .where(
      and(
        eq(audit.accountId, actor.accountId),
        gte(audit.id, idBound("aud", now - lifetimeMs)),
        eq(audit.action, "key.temporary_secret_made"),
        sql`${audit.actorId} IN (SELECT value FROM json_each(${JSON.stringify(memberIds)}))`,
      ),
    );
  const ending = ended.map(({ keyId, memberId }) => callGuard(guards, keyId, (guard) => guard.endTemporarySecrets(memberId)));
  for (const error of errorsOf(await Promise.allSettled(ending))) console.error("a temporary secret was not ended:", messagesOf(error));
}
