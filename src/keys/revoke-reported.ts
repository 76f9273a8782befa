import type { StoreReadContext } from "../accounts/actor.ts";
import type { Guards } from "../admission/guards.ts";
import { messagesOf } from "../db/failures.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { revokeLeaked } from "./revoke-key.ts";

const maxRemembered = 10_000;
/** Before each attempt: the platform ends what runs after a response at 30 s. */
const pausesMs = [0, 100, 500, 2000, 5000];

/** Hashes of secrets that have been acted upon: such a one never comes to life again, and need not be looked up again. */
const handled = new Set<string>();

/** Acts on a genuine key that was reported as leaked, once an isolate. The reporter has been answered, so nobody else would try again. Never rejects. */
export async function revokeReported(
  writing: Omit<WriteContext, "actor"> & StoreReadContext & { guards: Guards },
  { keyId, secretHash }: { keyId: string; secretHash: string },
): Promise<void> {
  if (handled.has(secretHash)) return;
  for (const pauseMs of pausesMs) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      await revokeLeaked(writing, keyId, secretHash);
      if (handled.size >= maxRemembered) handled.clear();
      handled.add(secretHash);
      return;
    } catch (error) {
      console.error(`the leaked key ${keyId} could not be revoked yet:`, messagesOf(error));
    }
  }
  console.error(`the leaked key ${keyId} could not be revoked`);
}
