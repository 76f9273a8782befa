import { operatorOn } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import * as contexts from "../http/operation-contexts.ts";
import { authorityOfSession } from "../identity/acting-session.ts";
import { may } from "../identity/roles.ts";
import { knownScopes } from "../keys/scopes.ts";
import type { Commit, Outbox } from "../outbox/outbox.ts";
import { openSnapshot } from "../usage/usage-snapshot.ts";
import { type PageContext, roleOf } from "./context.ts";

// Builds the read and write contexts for the operations that pages run. The actor is the signed-in member. In an overview without sign-in,
// the actor is the operator. A form changes nothing if the session ended or the member was removed before the change is written.

function actingOf(c: PageContext): contexts.Acting {
  const visitor = c.get("visitor");
  const { account, signedIn } = visitor;
  const by = signedIn ? ({ type: "member", id: signedIn.member.id } as const) : operatorOn(account.id).by;
  return {
    actor: { accountId: account.id, by, from: originOf(c) },
    logWriter: account.logWriter,
    authority: signedIn ? authorityOfSession(connect(c.env.DB), signedIn) : undefined,
    // Only roles that may read the audit log may access events about members.
    scopes: may(roleOf(visitor), "audit") ? null : knownScopes.filter((scope) => scope !== "audit:read"),
  };
}

/** Returns the context of a verb. */
export const contextOf = (c: PageContext, commit?: Commit) => contexts.contextFor(c, actingOf(c), commit);
/** Returns a context for pages that read usage figures. */
export const snapshotContext = (c: PageContext) => openSnapshot(contextOf(c));
/** Returns an outbox that writes changes without a valid session, for example during sign-in and sign-out. */
export const unboundOutbox = (c: PageContext): Outbox => contexts.outboxFor(c);
export const outbox = (c: PageContext): Outbox => contexts.outboxFor(c, actingOf(c).authority);
