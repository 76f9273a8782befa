import type { Actor, ReadContext } from "../accounts/actor.ts";
import { type Budgets, budgetsOf } from "../budget/budgets.ts";
import type { SigningSecret } from "../credentials/key-format.ts";
import { signingSecrets } from "../credentials/signing-secrets.ts";
import { connect } from "../db/client.ts";
import { type Guards, guardsOf } from "../guard/guards.ts";
import type { KeyContext } from "../keys/write-key.ts";
import type { ActivityReadContext } from "../log/read/read-activity.ts";
import { logOf } from "../log/writers.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import { type Authority, type Commit, commitTo, type Outbox, type WriteContext } from "../outbox/outbox.ts";
import { encryptionSecrets } from "../webhooks/subscriptions/encryption.ts";
import { ownHosts } from "../webhooks/subscriptions/url-rules.ts";
import type { WebhookContext } from "../webhooks/subscriptions/write-webhooks.ts";

// The functions below create the contexts that functions like `createTask` need. A context contains the actor, the databases and the time.

/** The properties of a request context that the functions below read. The request contexts of all surfaces have these properties. */
export interface Requesting {
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

export const readContext = (c: Requesting, { actor }: Pick<Acting, "actor">): ReadContext & { guards: Guards } => ({
  db: connect(c.env.DB),
  guards: guardsOf(c.env),
  actor,
  now: Date.now(),
});

/** Returns the context for functions that read the budget of the account. */
export const budgetContext = (c: Requesting, acting: Pick<Acting, "actor">): ReadContext & { budgets: Budgets } => ({
  ...readContext(c, acting),
  budgets: budgetsOf(c.env),
});

/** Returns the context for functions that read the activity log or usage figures from the log. */
export const logContext = (c: Requesting, acting: Pick<Acting, "actor" | "logWriter">): ActivityReadContext & { guards: Guards } => ({
  ...readContext(c, acting),
  ...logOf(c.env, acting.logWriter),
});

/**
 * Returns the outbox for the changes that a request makes. The outbox enqueues webhook deliveries in the background, without delaying the
 * response.
 */
export const outboxFor = (c: Requesting, authority?: Authority): Outbox => ({
  db: connect(c.env.DB),
  enqueue: enqueueVia(c.env.DELIVERIES, (work) => c.executionCtx.waitUntil(work)),
  requestId: c.get("requestId"),
  ...(authority && { authority }),
});

const defaultCommit = (c: Requesting, { authority }: Acting): Commit => commitTo(outboxFor(c, authority));

export const writeContext = (c: Requesting, acting: Acting, commit = defaultCommit(c, acting)): WriteContext & { guards: Guards } => ({
  ...readContext(c, acting),
  commit,
});

/** Returns the context for functions that create or change keys. */
export function keyContext(c: Requesting, acting: Acting, commit = defaultCommit(c, acting)): KeyContext & { signing: SigningSecret } {
  const [signing] = signingSecrets(c.env);
  return { ...logContext(c, acting), signing, commit };
}

/** Returns the context for functions that create or change webhooks. */
export const webhookContext = (c: Requesting, acting: Acting, commit = defaultCommit(c, acting)): WebhookContext => ({
  ...readContext(c, acting),
  commit,
  scopes: acting.scopes,
  requestId: c.get("requestId"),
  encryption: encryptionSecrets(c.env),
  urls: { ownHosts: ownHosts(c.env.PUBLIC_ORIGIN), isLocal: c.get("isLocal") },
});
