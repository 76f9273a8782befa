import type { Actor } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import { principalOf } from "../http/context.ts";
import * as contexts from "../http/operation-contexts.ts";
import { authorityOfKey } from "../keys/acting-key.ts";
import type { Commit, Outbox } from "../outbox/outbox.ts";
import type { ApiContext } from "./context.ts";

// These functions create the contexts that operations like `createTask` need in a request with an API key. A write commits only if the API
// key still has permission for the write.

/** Returns the account and the API key of an admitted request. */
export function actorOf(c: ApiContext): Actor {
  const { keyId, admission } = principalOf(c);
  return { accountId: admission.key.accountId, by: { type: "key", id: keyId }, from: originOf(c) };
}

/** Returns the scopes of the API key that made the request. */
export const scopesOf = (c: ApiContext): readonly string[] => principalOf(c).admission.key.scopes;

function actingOf(c: ApiContext): contexts.Acting {
  const { keyId, admission } = principalOf(c);
  return {
    actor: actorOf(c),
    logWriter: admission.key.logWriter,
    authority: authorityOfKey(connect(c.env.DB), { keyId, scope: c.get("policy")?.scope ?? null }),
    scopes: admission.key.scopes,
  };
}

export const outboxOf = (c: ApiContext): Outbox => contexts.outboxFor(c, actingOf(c).authority);
/** Returns the context of a verb. */
export const contextOf = (c: ApiContext, commit?: Commit) => contexts.contextFor(c, actingOf(c), commit);
