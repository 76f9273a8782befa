import { Hono } from "hono";
import { z } from "zod";
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
import { type OperatorEnv, operating, readBody } from "../context.ts";

// Operator actions that affect all accounts. In a long action, each call processes one page. The caller repeats the call for the next page. Each
// call writes an audit entry, because a caller can start the action at any cursor.

const enqueuedAtOnce = 1000;

export const maintenance = new Hono<OperatorEnv>();

maintenance.post("/guards/line-up", async (c) => {
  const { after } = await readBody(c, z.strictObject({ after: z.string().default("") }));
  const { db, now, operator, guards, budgets, env } = operating(c);
  await recordOperation(db, { now, operator, action: "guards.lined_up", details: { continued: after !== "" } });
  return c.json(await reconcileGuards({ db, guards, budgets, env }, after));
});

maintenance.get("/secrets", async (c) => {
  const { db, now } = operating(c);
  const signing = await countSignedKeys(db, signingSecrets(c.env), now);
  return c.json({
    signing: signing.secrets,
    places: { ...namesIn(c.env, "KEY_SIGNING_SECRETS"), ...namesIn(c.env, "WEBHOOK_SEALING_SECRETS") },
    unknown_keys: signing.unknown,
    sealing: await countEncryptedWebhooks(db, encryptionSecrets(c.env), now),
  });
});

maintenance.post("/secrets/reseal", async (c) => {
  const { db, now, operator } = operating(c);
  const { count, hasMore } = await reencryptWebhooks(db, encryptionSecrets(c.env), now);
  if (count > 0) await recordOperation(db, { now, operator, action: "webhooks.resealed", details: { webhooks: count } });
  return c.json({ resealed: count, has_more: hasMore });
});

maintenance.get("/deliveries", async (c) => {
  const { pending, due, oldestDueAt, failingWebhooks, disabledWebhooks } = await readBacklog(connect(c.env.DB), Date.now());
  return c.json({
    pending,
    due,
    oldest_due_at: isoOrNull(oldestDueAt),
    failing_webhooks: failingWebhooks,
    disabled_webhooks: disabledWebhooks,
  });
});

maintenance.post("/deliveries/drain", async (c) => {
  const { after } = await readBody(c, z.strictObject({ after: z.string().default("") }));
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

maintenance.get("/audit", async (c) => {
  const { rows, next } = await listOperations(connect(c.env.DB), c.req.query("after"), 100);
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
