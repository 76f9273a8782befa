import { z } from "@hono/zod-openapi";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { namesIn } from "../../crypto/secrets.ts";
import { connect } from "../../db/client.ts";
import { Failure } from "../../errors/failure.ts";
import { timeOfId } from "../../ids/ids.ts";
import { readBacklog } from "../../operations/deployment-status.ts";
import { listOperations, recordOperation } from "../../operations/operator-audit.ts";
import { reconcileGuards } from "../../operations/reconcile-guards.ts";
import { countEncryptedWebhooks, countSignedKeys } from "../../operations/signers.ts";
import { iso, isoOrNull } from "../../time/clock.ts";
import { encryptionSecrets } from "../../webhooks/encryption.ts";
import { reencryptWebhooks } from "../../webhooks/reencrypt.ts";
import { sweepDeliveries } from "../../webhooks/sweep.ts";
import { operating, readBody, readQuery } from "../context.ts";
import { createTeamRouter, documentOperations } from "../team-router.ts";

// Operator actions that affect all accounts. In a long action, each call processes one page. The caller repeats the call for the next page. Each
// call writes an audit entry, because a caller can start the action at any cursor.

const enqueuedAtOnce = 1000;

const AuditQuery = z.strictObject({ after: z.string().optional().meta({ description: "The `next` of the page before." }) });
const After = z.strictObject({
  after: z.string().default("").meta({ description: "The cursor of the call before, or an empty text.", example: "" }),
});

export const routes = createTeamRouter();

routes.post("/guards/line-up", async (c) => {
  const { after } = await readBody(c, After);
  const { db, now, operator, guards, budgets, env } = operating(c);
  await recordOperation(db, { now, operator, action: "guards.lined_up", details: { continued: after !== "" } });
  return c.json(await reconcileGuards({ db, guards, budgets, env }, after));
});

routes.get("/secrets", async (c) => {
  const { db, now } = operating(c);
  const signing = await countSignedKeys(db, signingSecrets(c.env), now);
  return c.json({
    signing: signing.secrets,
    places: { ...namesIn(c.env, "KEY_SIGNING_SECRETS"), ...namesIn(c.env, "WEBHOOK_SEALING_SECRETS") },
    unknown_keys: signing.unknown,
    sealing: await countEncryptedWebhooks(db, encryptionSecrets(c.env), now),
  });
});

routes.post("/secrets/reseal", async (c) => {
  const { db, now, operator } = operating(c);
  const { count, hasMore } = await reencryptWebhooks(db, encryptionSecrets(c.env), now);
  if (count > 0) await recordOperation(db, { now, operator, action: "webhooks.resealed", details: { webhooks: count } });
  return c.json({ resealed: count, has_more: hasMore });
});

routes.get("/deliveries", async (c) => {
  const { pending, due, oldestDueAt, failingWebhooks, disabledWebhooks } = await readBacklog(connect(c.env.DB), Date.now());
  return c.json({
    pending,
    due,
    oldest_due_at: isoOrNull(oldestDueAt),
    failing_webhooks: failingWebhooks,
    disabled_webhooks: disabledWebhooks,
  });
});

routes.post("/deliveries/drain", async (c) => {
  const { after } = await readBody(c, After);
  const { db, now, operator, env } = operating(c);
  await recordOperation(db, { now, operator, action: "deliveries.drained", details: { continued: after !== "" } });
  const deliver = async () => {
    throw new Failure(
      "unavailable",
      "The queue does not accept messages right now. A scheduled job sends the due deliveries, 25 per minute.",
    );
  };
  const { done, last } = await sweepDeliveries({ db, queue: env.DELIVERIES, deliver }, now, after, enqueuedAtOnce);
  return c.json({ enqueued: done, next: last, due: (await readBacklog(db, Date.now())).due });
});

routes.get("/audit", async (c) => {
  const { rows, next } = await listOperations(connect(c.env.DB), readQuery(c, AuditQuery).after, 100);
  const data = rows.map(({ id, operator, action, accountId, targetId, details }) => ({
    id,
    at: iso(timeOfId(id)),
    operator,
    action,
    account_id: accountId,
    target_id: targetId,
    details,
  }));
  return c.json({ data, next });
});

documentOperations(routes, "Operations", {
  "POST /guards/line-up": {
    operationId: "lineUpGuards",
    summary: "Reconcile guards",
    description:
      "Makes the guards and the rows of keys agree again after D1 was restored. Repeat the call with the cursor of the response.",
    body: After,
  },
  "GET /secrets": {
    operationId: "getSecrets",
    summary: "Get the use of secrets",
    description: "Returns how many keys and webhooks each secret has signed or encrypted.",
  },
  "POST /secrets/reseal": {
    operationId: "resealSecrets",
    summary: "Encrypt webhook secrets again",
    description: "Encrypts some webhook secrets with the newest secret. Repeat the call while `has_more` is true.",
  },
  "GET /deliveries": {
    operationId: "getBacklog",
    summary: "Get the backlog of deliveries",
    description: "Returns the deliveries that wait.",
  },
  "POST /deliveries/drain": {
    operationId: "drainDeliveries",
    summary: "Send due deliveries",
    description: "Puts due deliveries into the queue. Repeat the call with the cursor of the response.",
    body: After,
  },
  "GET /audit": {
    operationId: "listOperations",
    summary: "List what operators did",
    description: "Lists the actions of operators and service tokens, newest first.",
    query: AuditQuery,
  },
});
