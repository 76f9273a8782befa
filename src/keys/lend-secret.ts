import { newSecretKey, type SigningSecret } from "../credentials/key-format.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { minuteMs } from "../lib/time/clock.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { statusOf } from "./key.ts";
import { readKeyRow } from "./read-keys.ts";

const lentMs = 10 * minuteMs;

/**
 * Returns another secret of an active key, with which a person tries the API from a page. It is valid for ten minutes, and ends earlier with the key or its
 * secret. Throws `not_found`, `conflict` if the key is not active, and `unavailable` if its guard does not respond.
 */
export async function lendSecret(
  context: WriteContext & { guards: Guards; signing: () => SigningSecret },
  id: string,
): Promise<{ secretKey: string; until: number }> {
  const key = await readKeyRow(context, id);
  if (statusOf(key, context.now) !== "active") throw new Failure("conflict", "Only an active key can send requests.");
  const secretKey = newSecretKey(id, context.signing());
  const until = context.now + lentMs;
  const audit = [auditEntry(context, "key.lent", { type: "key", id, name: key.name })];
  await context.commit({ events: [], audit, statements: {}, whenFull: "reserve" });
  await callGuard(context.guards, id, (guard) => guard.lend(hashOf(secretKey), until));
  return { secretKey, until };
}
