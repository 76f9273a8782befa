import { createRoute, z } from "@hono/zod-openapi";
import { connect } from "../db/client.ts";
import { hashOf } from "../hash.ts";
import { revokeLeaked } from "../keys/change-key.ts";
import { keyIdOf } from "../keys/key-format.ts";
import { commitTo } from "../webhooks/commit.ts";
import { signingSecrets } from "./admit.ts";
import { readLimited } from "./body.ts";
import { type ApiContext, callOf } from "./context.ts";
import { withoutKey } from "./operation.ts";
import { wakeOf } from "./post.ts";
import { resource } from "./resource.ts";
import { sendEmpty } from "./send.ts";

const Leaked = z.looseObject({ key: z.string().trim() });

export const leaked = resource();

const revoke = createRoute({
  method: "post",
  path: "/keys/revoke-leaked",
  operationId: "revokeLeakedKey",
  summary: "Report a key that was found in public",
  description:
    "Takes no key and answers 202 to whatever was sent, before any look-up. A live secret acts within a second: the current one revokes its key, one within its overlap ends alone, one that was rotated out does nothing.",
  tags: ["Keys"],
  ...withoutKey,
  request: {
    query: z.looseObject({}),
    body: {
      required: true,
      // No zod schema here: whatever is sent is answered alike.
      content: {
        "application/json": {
          schema: {
            type: "object",
            required: ["key"],
            properties: { key: { type: "string", description: "The whole secret key." } },
            additionalProperties: false,
          },
        },
      },
    },
  },
  responses: { 202: { description: "Taken. Says nothing about whether there is such a key." } },
});

leaked.openapi(revoke, async (c) => {
  const secretKey = await leakedKey(c);
  const keyId = secretKey === null ? null : keyIdOf(secretKey, signingSecrets(c.env));
  if (secretKey !== null && keyId !== null) {
    const db = connect(c.env.DB);
    const writing = { db, now: callOf(c).startedAt, commit: commitTo(db, wakeOf(c)), guards: c.env.KEY_GUARD };
    c.executionCtx.waitUntil(persistently(() => revokeLeaked(writing, keyId, hashOf(secretKey))));
  }
  return sendEmpty(c, 202);
});

/** The answer has gone, so nobody else would try again. */
async function persistently(act: () => Promise<void>): Promise<void> {
  for (const pauseMs of [100, 500, 2000, 5000, 10_000]) {
    try {
      return await act();
    } catch (error) {
      console.error("a leaked key could not be revoked yet:", String(error));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
  console.error("a leaked key could not be revoked");
}

async function leakedKey(c: ApiContext): Promise<string | null> {
  try {
    const text = new TextDecoder().decode(await readLimited(c));
    return Leaked.parse(JSON.parse(text)).key;
  } catch {
    return null;
  }
}
