import type { Guards } from "../admission/guards.ts";
import { messagesOf } from "../db/failures.ts";
import type { LogsReadContext } from "../usage/log-context.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { revokeLeaked } from "./revoke-key.ts";

const maxCached = 10_000;
/** The pause before each attempt, in milliseconds. The platform stops any work that still runs 30 s after the response. */
const pausesMs = [0, 100, 500, 2000, 5000];

/**
 * The hashes of the leaked secrets that this isolate has already handled. A handled secret never becomes valid again, so it needs no
 * further lookup.
 */
const handled = new Set<string>();

/**
 * Handles a verified key that was reported as leaked. Each isolate handles the same secret only once. The client that reported the key
 * already has a response and will not retry. This function therefore retries failed attempts. Never rejects.
 */
export async function revokeReported(
  context: Omit<WriteContext, "actor"> & LogsReadContext & { guards: Guards },
  { keyId, secretHash }: { keyId: string; secretHash: string },
): Promise<void> {
  if (handled.has(secretHash)) return;
  for (const pauseMs of pausesMs) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    try {
      await revokeLeaked(context, keyId, secretHash);
      if (handled.size >= maxCached) handled.clear();
      handled.add(secretHash);
      return;
    } catch (error) {
      console.error(`the leaked key ${keyId} could not be revoked yet:`, messagesOf(error));
    }
  }
  console.error(`the leaked key ${keyId} could not be revoked`);
}
