import { createRoute, z } from "@hono/zod-openapi";
import { logOf } from "../activity/writers.ts";
import { guardsOf } from "../admission/guards.ts";
import type { ApiContext } from "../api/context.ts";
import { respondEmpty } from "../api/respond.ts";
import { publicRoute } from "../api/route-parts/access.ts";
import { noContent } from "../api/route-parts/responses.ts";
import { createRouter } from "../api/router.ts";
import { importSecretsIn } from "../credentials/imported-secret.ts";
import { keyVerifier } from "../credentials/signing-secrets.ts";
import { connect } from "../db/client.ts";
import { outboxFor } from "../http/operation-contexts.ts";
import { commitTo } from "../webhooks/outbox.ts";
import { findImported } from "./find-imported.ts";
import { revokeReported } from "./revoke-reported.ts";

const Leaked = z.looseObject({ key: z.string().trim() });

export const routes = createRouter();

const revoke = createRoute({
  method: "post",
  path: "/keys/revoke-leaked",
  operationId: "revokeLeakedKey",
  summary: "Report a leaked key",
  description:
    "Reports a secret key that was found in public. The response to every request is 202, and is sent before the key is looked up. If the secret is the current secret of a key, the key is revoked within a second. If you report the previous secret during an overlap, only the previous secret stops working. If you report an old secret whose overlap has ended, nothing happens.",
  tags: ["Keys"],
  ...publicRoute,
  request: {
    query: z.looseObject({}),
    body: {
      required: true,
      // The body has no zod schema, because every body gets the same response.
      content: {
        "application/json": {
          schema: {
            type: "object",
            required: ["key"],
            properties: {
              key: {
                type: "string",
                description: "The complete secret key.",
                example: "dvo_4fPq2rT8vX0zB6dH_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7x7Qa",
              },
            },
            description: "The secret key that was found.",
            additionalProperties: false,
          },
        },
      },
    },
  },
  responses: { 202: noContent("The report was received. The response does not reveal whether the key exists.", { isPublic: true }) },
});

routes.openapi(revoke, (c) => {
  const secretKey = reportedIn(c);
  if (secretKey !== null) c.executionCtx.waitUntil(revokeIfKnown(c, secretKey));
  return respondEmpty(c, 202);
});

/** Returns the text in a leak report, or null if the body has none. */
function reportedIn(c: ApiContext): string | null {
  try {
    return Leaked.parse(JSON.parse(new TextDecoder().decode(c.get("body").bytes))).key;
  } catch {
    return null;
  }
}

/** Revokes the key with this secret, if there is one. Made-up text of the form of imported keys is looked up at most 100 times in a second. */
async function revokeIfKnown(c: ApiContext, secretKey: string): Promise<void> {
  const db = connect(c.env.DB);
  const now = Date.now();
  const reported =
    keyVerifier(c.env).verify(secretKey) ?? (await findImported(db, importSecretsIn(c.env), secretKey, now).catch(() => null));
  if (reported === null) return;
  await revokeReported(
    {
      db,
      logOf: (logWriter: string) => logOf(c.env, logWriter),
      now,
      commit: commitTo(outboxFor(c)),
      guards: guardsOf(c.env),
    },
    reported,
  );
}
