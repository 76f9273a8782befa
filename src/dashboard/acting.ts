import { type Actor, type LogReading, operatorOn, type Reading } from "../accounts/actor.ts";
import { connectToStore } from "../activity/databases.ts";
import { refreshBy } from "../activity/writers.ts";
import type { Guards } from "../admission/guards.ts";
import { type SigningSecret, signingSecretsIn } from "../credentials/key-format.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import { actingSession } from "../identity/acting-session.ts";
import { may } from "../identity/roles.ts";
import { type Scope, scopes } from "../keys/scopes.ts";
import type { KeyContext } from "../keys/write-key.ts";
import type { Finishing } from "../operations/removal.ts";
import { refreshRollUps } from "../usage/refresh-roll-ups.ts";
import { enqueueVia } from "../webhooks/enqueue.ts";
import { type Commit, commitTo, type Outbox, type Writing } from "../webhooks/outbox.ts";
import { sealingSecrets } from "../webhooks/sealing.ts";
import { ownHosts } from "../webhooks/url-rules.ts";
import type { WebhookWriting } from "../webhooks/write-webhooks.ts";
import { type PageContext, roleOf } from "./context.ts";

// What verbs take besides their input: on whose behalf, on which data, at what time.

/** A member who has signed in; else whoever sits at the machine, as the operator. */
function actorOf(c: PageContext): Actor {
  const { account, signedIn } = c.get("visitor");
  const by = signedIn ? ({ type: "member", id: signedIn.member.id } as const) : operatorOn(account.id).by;
  return { accountId: account.id, by, from: originOf(c) };
}

export const reading = (c: PageContext): Reading & { guards: Guards } => ({
  db: connect(c.env.DB),
  guards: c.env.KEY_GUARD,
  actor: actorOf(c),
  now: Date.now(),
});

/** What verbs take that read the log: that of the account's own activity database. */
export const readingLog = (c: PageContext): LogReading & { guards: Guards } => ({
  ...reading(c),
  activity: connectToStore(c.env, c.get("visitor").account.activityStore),
});

/** What verbs take that read usage or the last uses of keys. */
export const upToDate = (c: PageContext) =>
  refreshRollUps({ ...readingLog(c), refresh: refreshBy(c.env, c.get("visitor").account.activityStore) });

/** Where a page writes for somebody who is no visitor yet, or no longer. */
export const unboundOutbox = (c: PageContext): Outbox => ({
  db: connect(c.env.DB),
  enqueue: enqueueVia(c.env.DELIVERIES, (work) => c.executionCtx.waitUntil(work)),
  requestId: c.get("requestId"),
});

/** Where a page writes. */
export const outbox = (c: PageContext): Outbox => ({ ...unboundOutbox(c), ...authorityOf(c) });

/** A session that was ended, or a member that was removed, while a form was on its way changes nothing any more. */
function authorityOf(c: PageContext): Pick<Outbox, "authority"> {
  const { signedIn } = c.get("visitor");
  return signedIn ? { authority: actingSession(connect(c.env.DB), signedIn) } : {};
}

/** What verbs take that write. */
export const writing = (c: PageContext): Writing => ({ ...reading(c), commit: commitTo(outbox(c)) });

/** What it takes to finish a removal, which was decided by somebody who was signed in. */
export const finishing = (c: PageContext): Finishing => ({
  ...unboundOutbox(c),
  guards: c.env.KEY_GUARD,
  activityIn: (store) => connectToStore(c.env, store),
});

/** What verbs take that make and change keys. */
export function keyWriting(c: PageContext, commit: Commit = commitTo(outbox(c))): KeyContext & { signing: SigningSecret } {
  const [signing] = signingSecretsIn(c.env);
  return { ...readingLog(c), signing, commit };
}

/** What events a visitor may read, and have sent: null for all. Those about people are for who may read the audit log. */
const readableScopes = (c: PageContext): readonly Scope[] | null =>
  may(roleOf(c.get("visitor")), "audit") ? null : scopes.filter((scope) => scope !== "audit:read");

/** What verbs take that make and change webhooks. */
export const webhookWriting = (c: PageContext, commit: Commit = commitTo(outbox(c))): WebhookWriting => ({
  ...reading(c),
  commit,
  scopes: readableScopes(c),
  sealing: sealingSecrets(c.env),
  urls: { ownHosts: ownHosts(c.env.PUBLIC_ORIGIN), isLocal: c.get("isLocal") },
});
