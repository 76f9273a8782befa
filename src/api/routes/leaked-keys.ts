import { createRoute, z } from "@hono/zod-openapi";
import { importSecretsIn } from "../../credentials/imported-secret.ts";
import { keyVerifier } from "../../credentials/signing-secrets.ts";
import { connect } from "../../db/client.ts";
import { guardsOf } from "../../guard/guards.ts";
import { clientAddress } from "../../http/client-address.ts";
import { outboxFor } from "../../http/operation-contexts.ts";
import { findImported } from "../../keys/imported/find-imported.ts";
import { revokeReported } from "../../keys/revoke-reported.ts";
import { logOf } from "../../log/writers.ts";
import { commitTo } from "../../outbox/outbox.ts";
import type { ApiContext } from "../context.ts";
import { respondEmpty } from "../respond.ts";
import { failsWith, publicRoute } from "../route-parts/access.ts";
import { post } from "../route-parts/requests.ts";
import { headerRefs } from "../route-parts/responses.ts";
import { createRouter } from "../router.ts";

const Leaked = z.looseObject({ key: z.string().trim() });

export const routes = createRouter();

const revoke = createRoute({
  ...post("/keys/revoke-leaked", "revokeLeakedKey", "Report a leaked key"),
  description:
    "Reports a secret key that was found in public. The response is 202 once the report has taken effect, and even if there is no such key. If the report cannot be stored, the response is 503. If your address has sent too many keys that do not exist, the response is 429. Send the report again after either. If the secret is the current secret of a key, the key is revoked. If you report the previous secret during an overlap, only the previous secret stops working. If you report an old secret whose overlap has ended, nothing happens.",
  tags: ["Keys"],
  ...publicRoute,
  ...failsWith("too_many_unknown_keys"),
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
  responses: {
    202: {
      description: "The report was received. The response does not reveal whether the key exists.",
      headers: headerRefs("X-Request-Id"),
    },
  },
});

routes.openapi(revoke, async (c) => {
  const secretKey = reportedIn(c);
  const db = connect(c.env.DB);
  const reported = keyVerifier(c.env).verify(secretKey) ?? (await findImported(db, importSecretsIn(c.env), secretKey, clientAddress(c)));
  // The report is stored by what it causes. If that fails, the client must send it again.
  if (reported)
    await revokeReported(
      {
        db,
        logOf: (logWriter: string) => logOf(c.env, logWriter),
        now: Date.now(),
        commit: commitTo(outboxFor(c)),
        guards: guardsOf(c.env),
      },
      reported,
    );
  return respondEmpty(c, 202);
});

/** Returns the text in a leak report, or an empty text if the body has none. */
function reportedIn(c: ApiContext): string {
  try {
    return Leaked.parse(JSON.parse(new TextDecoder().decode(c.get("body").bytes))).key;
  } catch {
    return "";
  }
}
