import { createRoute, z } from "@hono/zod-openapi";
import { accountsAfter } from "../../accounts/account.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { get, optionalBody, post } from "../../api/route-parts/requests.ts";
import { listOf, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { recordOperation } from "../../identity/audit/operator-audit.ts";
import { namesIn } from "../../lib/crypto/secrets.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { isoOrNull, minuteMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { reconcileGuards } from "../../lifecycle/reconcile-guards.ts";
import { writerAt } from "../../log/writers.ts";
import { readBacklog } from "../../monitoring/deployment-status.ts";
import { countEncryptedWebhooks, countSignedKeys, findNeedingLost, type SecretUse } from "../../monitoring/signers.ts";
import { testAlert } from "../../monitoring/test-alert.ts";
import { sweepDeliveries } from "../../webhooks/deliveries/sweep.ts";
import { encryptionSecrets } from "../../webhooks/subscriptions/encryption.ts";
import { reencryptWebhooks } from "../../webhooks/subscriptions/reencrypt.ts";
import { operatorContext, type TeamContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamResult } from "../team-router.ts";

// Operator actions that affect all accounts. In a long action, each call processes one page. The caller repeats the call for the next page. Each
// call writes an audit entry, because a caller can start the action at any cursor.

const enqueuedAtOnce = 1000;

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const operation = { tags: ["Operations"], ...requireTokenScope("operate") };

const After = z.strictObject({
  after: z.string().default("").meta({ description: "The cursor of the call before, or an empty text.", example: "" }),
});

/** Starts a call of a long action. Writes its audit entry. */
async function begin(c: TeamContext, action: string, after: string) {
  const context = operatorContext(c);
  await recordOperation(context, { action, details: { continued: after !== "" } });
  return context;
}

const next = stringOrNull.meta({ description: "The cursor of the next call, or null at the end.", example: null });
const ids = (description: string) => z.array(z.string()).meta({ description, example: [] });

const reconcileAllGuards = createRoute({
  ...post("/guards/reconcile", "reconcileGuards", "Reconcile guards"),
  description: "Makes the guards and the rows of keys agree again after D1 was restored. Repeat the call with the cursor of the response.",
  ...operation,
  ...failsWith("invalid_cursor"),
  request: { body: optionalBody(After) },
  responses: teamResult("What was reconciled.", {
    checked: z.int().meta({ description: "The number of guards that were checked.", example: 50 }),
    accounts: ids("The accounts whose guards had other limits than their rows."),
    reconciled: ids("The keys whose rows were updated from their guards."),
    revoked: ids("The keys without a row, which are now revoked."),
    unreachable: ids("The keys whose guards could not be reached."),
    next,
  }),
});

routes.openapi(reconcileAllGuards, async (c) => {
  const { after } = c.req.valid("json");
  const { db, guards, budgets, env } = await begin(c, "guards.lined_up", after);
  return respondJson(c, await reconcileGuards({ db, guards, budgets, env }, after), 200);
});

const SecretUseData = z.strictObject({
  name: z.string().meta({ description: "The name of the secret.", example: "a" }),
  is_newest: z.boolean().meta({ description: "Whether new keys or webhooks use the secret.", example: true }),
  is_there: z.boolean().meta({ description: "Whether the Worker still has the secret.", example: true }),
  used: z.int().meta({ description: "The number of keys or webhooks that need the secret.", example: 12 }),
});

const useData = ({ name, isNewest, isThere, used }: SecretUse) => ({ name, is_newest: isNewest, is_there: isThere, used });

const mostNeeding = 100;

const getSecrets = createRoute({
  ...get("/secrets", "getSecrets", "Get the use of secrets"),
  description: "Returns how many keys and webhooks each secret has signed or encrypted. The secrets themselves are never shown.",
  ...operation,
  responses: teamResult("The use of the secrets.", {
    signing: z.array(SecretUseData).meta({ description: "The secrets that sign keys." }),
    places: z.record(z.string(), z.array(z.string())).meta({
      description: "The names of the secrets in each binding.",
      example: { KEY_SIGNING_SECRETS: ["a"], KEY_SIGNING_SECRETS_2: [] },
    }),
    unknown_keys: z.int().meta({ description: "The keys whose signing secret is not known, after D1 was restored.", example: 0 }),
    encryption: z.array(SecretUseData).meta({ description: "The secrets that encrypt webhook secrets." }),
    need_lost: listOf(`The keys and webhooks that need a secret that the Worker does not have, at most ${mostNeeding}.`, {
      id: z.string().meta({ description: "The key or the webhook.", example: "key_2wVY7cPq9sTdKfR4" }),
      account_id: z.string().meta({ description: "Its account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    }),
  }),
});

routes.openapi(getSecrets, async (c) => {
  const { db, now } = operatorContext(c);
  const [signing, encryption, needing] = await Promise.all([
    countSignedKeys(db, c.env, now),
    countEncryptedWebhooks(db, c.env, now),
    findNeedingLost(db, c.env, { now, limit: mostNeeding }),
  ]);
  const uses = {
    signing: signing.secrets.map(useData),
    places: { ...namesIn(c.env, "KEY_SIGNING_SECRETS"), ...namesIn(c.env, "WEBHOOK_ENCRYPTION_SECRETS") },
    unknown_keys: signing.unknown,
    encryption: encryption.map(useData),
    need_lost: needing.map(({ id, accountId }) => ({ id, account_id: accountId })),
  };
  return respondJson(c, uses, 200);
});

const reencryptSecrets = createRoute({
  ...post("/secrets/reencrypt", "reencryptSecrets", "Encrypt webhook secrets again"),
  description: "Encrypts some webhook secrets with the newest secret. Repeat the call while `has_more` is true.",
  ...operation,
  responses: teamResult("What was encrypted.", {
    reencrypted: z.int().meta({ description: "The number of webhook secrets that were encrypted again.", example: 0 }),
    has_more: z.boolean().meta({ description: "Whether other webhook secrets are left.", example: false }),
  }),
});

routes.openapi(reencryptSecrets, async (c) => {
  const context = operatorContext(c);
  const { db } = context;
  await recordOperation(context, { action: "webhooks.reencrypted" });
  const { count, hasMore } = await reencryptWebhooks(db, encryptionSecrets(c.env), context.now);
  return respondJson(c, { reencrypted: count, has_more: hasMore }, 200);
});

const due = z.int().meta({ description: "The deliveries that are due, at most 1,000 of each webhook.", example: 0 });

const getBacklog = createRoute({
  ...get("/deliveries", "getBacklog", "Get the backlog of deliveries"),
  description: "Returns how many deliveries wait, and how many webhooks have problems.",
  ...operation,
  responses: teamResult("The backlog.", {
    pending: z.int().meta({ description: "The deliveries that wait for an attempt. 100,001 means more than 100,000.", example: 0 }),
    due,
    oldest_due_at: time.nullable().meta({ description: "The time at which the oldest due delivery became due, or null." }),
    failing_webhooks: z.int().meta({ description: "The active webhooks whose latest attempts failed.", example: 0 }),
    disabled_webhooks: z.int().meta({ description: "The disabled webhooks.", example: 0 }),
  }),
});

routes.openapi(getBacklog, async (c) => {
  const backlog = await readBacklog(connect(c.env.DB), Date.now());
  const shown = {
    pending: backlog.pending,
    due: backlog.due,
    oldest_due_at: isoOrNull(backlog.oldestDueAt),
    failing_webhooks: backlog.failingWebhooks,
    disabled_webhooks: backlog.disabledWebhooks,
  };
  return respondJson(c, shown, 200);
});

const drainDeliveries = createRoute({
  ...post("/deliveries/drain", "drainDeliveries", "Send due deliveries"),
  description: "Puts due deliveries into the queue. Repeat the call with the cursor of the response.",
  ...operation,
  request: { body: optionalBody(After) },
  responses: teamResult("What was put into the queue.", {
    enqueued: z.int().meta({ description: "The deliveries that were put into the queue.", example: 0 }),
    next,
    due,
  }),
});

routes.openapi(drainDeliveries, async (c) => {
  const { after } = c.req.valid("json");
  const { db, env, now } = await begin(c, "deliveries.drained", after);
  const deliver = async () => {
    throw new Failure(
      "unavailable",
      "The queue does not accept messages right now. A scheduled job sends the due deliveries, 25 per minute.",
    );
  };
  const { done, last } = await sweepDeliveries({ db, queue: env.DELIVERIES, deliver }, now, after, enqueuedAtOnce);
  return respondJson(c, { enqueued: done, next: last, due: (await readBacklog(db, Date.now())).due }, 200);
});

/** The number of accounts whose log entries one call stores. Each of them takes one call to a log writer, and the writer about twelve D1 statements. */
const flushedAtOnce = 20;

const flushLog = createRoute({
  ...post("/log/flush", "flushLog", "Store log entries"),
  description:
    "Stores the log entries that are still in log writers in their databases, for example before a backup. Repeat the call with the cursor of the response. Entries whose response can still be reported stay in the log writers.",
  ...operation,
  request: { body: optionalBody(After) },
  responses: teamResult("What was stored.", {
    flushed: z.int().meta({ description: "The number of accounts whose entries were stored.", example: 20 }),
    failed: ids("The accounts whose entries could not be stored."),
    next,
  }),
});

routes.openapi(flushLog, async (c) => {
  const { after } = c.req.valid("json");
  const { db, env } = await begin(c, "log.flushed", after);
  const accounts = await accountsAfter(db, after, flushedAtOnce);
  const outcomes = await Promise.allSettled(
    accounts.map(({ id, logWriter }) => withDeadline(writerAt(env, logWriter).flush(id), minuteMs, `Storing the log of ${id}`)),
  );
  const failed = accounts.filter((_, index) => outcomes[index]?.status === "rejected").map(({ id }) => id);
  const last = accounts.length === flushedAtOnce ? accounts.at(-1)?.id : undefined;
  return respondJson(c, { flushed: accounts.length - failed.length, failed, next: last ?? null }, 200);
});

const postTestAlert = createRoute({
  ...post("/alerts/test", "postTestAlert", "Test the alerts"),
  description: "Posts an alert that begins, and then its end, to `ALERT_URL`.",
  ...operation,
  responses: teamResult("What was posted.", {
    posted: z.int().meta({ description: "The number of messages that the receiver took.", example: 2 }),
    problem: stringOrNull.meta({ description: "Why no further message was posted, or null.", example: null }),
  }),
});

routes.openapi(postTestAlert, async (c) => {
  const context = operatorContext(c);
  await recordOperation(context, { action: "alerts.tested" });
  return respondJson(c, await testAlert(context.env, context.now), 200);
});
