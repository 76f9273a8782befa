import { operatorOn, type ReadContext } from "../accounts/actor.ts";
import { connectToStore } from "../activity/databases.ts";
import type { Guards } from "../admission/guards.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import * as contexts from "../http/contexts.ts";
import { actingSession } from "../identity/acting-session.ts";
import { may } from "../identity/roles.ts";
import { scopes } from "../keys/scopes.ts";
import type { Finishing } from "../operations/removal.ts";
import { refreshRollUps } from "../usage/refresh-roll-ups.ts";
import type { Commit, Outbox, WriteContext } from "../webhooks/outbox.ts";
import type { WebhookContext } from "../webhooks/write-webhooks.ts";
import { type PageContext, roleOf } from "./context.ts";

// What verbs take besides their input, for a member who has signed in, or for the person at the machine, as the operator. A session that was ended, or a
// member who was removed, while a form was on its way changes nothing any more.

function actingOf(c: PageContext): contexts.Acting {
  const visitor = c.get("visitor");
  const { account, signedIn } = visitor;
  const by = signedIn ? ({ type: "member", id: signedIn.member.id } as const) : operatorOn(account.id).by;
  return {
    actor: { accountId: account.id, by, from: originOf(c) },
    store: account.activityStore,
    authority: signedIn ? actingSession(connect(c.env.DB), signedIn) : undefined,
    // Events about members are for who may read the audit log.
    scopes: may(roleOf(visitor), "audit") ? null : scopes.filter((scope) => scope !== "audit:read"),
  };
}

export const readContext = (c: PageContext): ReadContext & { guards: Guards } => contexts.readContext(c, actingOf(c));
export const logContext = (c: PageContext) => contexts.logContext(c, actingOf(c));
/** For verbs that read usage or the last uses of keys. */
export const upToDate = (c: PageContext) => refreshRollUps(logContext(c));
/** Where a page writes for somebody who has not signed in yet, or not any more. */
export const unboundOutbox = (c: PageContext): Outbox => contexts.outboxFor(c);
export const outbox = (c: PageContext): Outbox => contexts.outboxFor(c, actingOf(c).authority);
export const writeContext = (c: PageContext): WriteContext => contexts.writeContext(c, actingOf(c));
export const keyContext = (c: PageContext, commit?: Commit) => contexts.keyContext(c, actingOf(c), commit);
export const webhookContext = (c: PageContext, commit?: Commit): WebhookContext => contexts.webhookContext(c, actingOf(c), commit);

/** For the end of a removal, which was decided by somebody who was signed in. */
export const finishing = (c: PageContext): Finishing => ({
  ...unboundOutbox(c),
  guards: c.env.KEY_GUARD,
  activityIn: (store) => connectToStore(c.env, store),
});
