import type { Actor } from "../accounts/actor.ts";
import { budgetsOf } from "../budget/budgets.ts";
import { signingSecrets } from "../credentials/signing-secrets.ts";
import { connect } from "../db/client.ts";
import { guardsOf } from "../guard/guards.ts";
import { logOf } from "../log/writers.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import { type Authority, type Commit, commitTo, type Outbox } from "../outbox/outbox.ts";
import { encryptionSecrets } from "../webhooks/subscriptions/encryption.ts";
import { ownHosts } from "../webhooks/subscriptions/url-rules.ts";

/** The properties of a request context that the functions below read. The request contexts of all transports have these properties. */
export interface RequestSource {
  env: Env;
  executionCtx: { waitUntil(work: Promise<unknown>): void };
  get(name: "requestId"): string;
  get(name: "isLocal"): boolean;
}

/**
 * The actor of a request, with the actor's log writer and permissions. `logWriter` is the name of the account's log writer. `scopes` limits the
 * events that the actor may read. If `scopes` is null, the actor may read all events.
 */
export interface Acting {
  actor: Actor;
  logWriter: string;
  authority?: Authority | undefined;
  scopes: readonly string[] | null;
}

/**
 * Returns the outbox for the changes that a request makes. The outbox enqueues webhook deliveries in the background, without delaying the
 * response.
 */
export const outboxFor = (c: RequestSource, authority?: Authority): Outbox => ({
  db: connect(c.env.DB),
  enqueue: enqueueVia(c.env.DELIVERIES, (work) => c.executionCtx.waitUntil(work)),
  requestId: c.get("requestId"),
  ...(authority && { authority }),
});

/**
 * Returns the context of a verb: who acts, the databases and objects of the account, the time, and `commit`, which writes a change. A verb names the members
 * that it needs (`ReadContext`, `WriteContext`, `KeyContext` and others). Secrets are functions, because one that is missing must stop only the verbs that
 * need it.
 */
export const contextFor = (c: RequestSource, acting: Acting, commit: Commit = commitTo(outboxFor(c, acting.authority))) => ({
  db: connect(c.env.DB),
  ...logOf(c.env, acting.logWriter),
  guards: guardsOf(c.env),
  budgets: budgetsOf(c.env),
  actor: acting.actor,
  scopes: acting.scopes,
  now: Date.now(),
  requestId: c.get("requestId"),
  signing: () => signingSecrets(c.env)[0],
  encryption: () => encryptionSecrets(c.env),
  urls: { ownHosts: ownHosts(c.env.PUBLIC_ORIGIN), isLocal: c.get("isLocal") },
  commit,
});
