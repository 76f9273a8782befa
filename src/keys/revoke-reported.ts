import type { Guards } from "../guard/guards.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import type { LogsReadContext } from "../usage/log-context.ts";
import { revokeLeaked } from "./revoke-key.ts";

const timeoutMs = 10 * secondMs;
const maxCached = 10_000;

/**
 * The hashes of the leaked secrets that this isolate has already handled. A handled secret never becomes valid again, so it needs no
 * further lookup.
 */
const handled = new Set<string>();

/**
 * Revokes a verified key that was reported as leaked. Each isolate handles the same secret only once. Throws if the revocation is not stored or does not take
 * effect. The reporter must then send the report again.
 */
export async function revokeReported(
  context: Omit<WriteContext, "actor"> & LogsReadContext & { guards: Guards },
  { keyId, secretHash }: { keyId: string; secretHash: string },
): Promise<void> {
  if (handled.has(secretHash)) return;
  await withDeadline(revokeLeaked(context, keyId, secretHash), timeoutMs, "Revoking a leaked key");
  if (handled.size >= maxCached) handled.delete(handled.values().next().value as string);
  handled.add(secretHash);
}
