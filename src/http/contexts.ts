import type { Actor, LogReadContext, ReadContext } from "../accounts/actor.ts";
import { connectToStore } from "../activity/databases.ts";
import { refreshBy } from "../activity/writers.ts";
import type { Guards } from "../admission/guards.ts";
import { type SigningSecret, signingSecretsIn } from "../credentials/key-format.ts";
import { connect } from "../db/client.ts";
import type { KeyContext } from "../keys/write-key.ts";
import type { Refresh } from "../usage/refresh-roll-ups.ts";
import { encryptionSecrets } from "../webhooks/encryption.ts";
import { enqueueVia } from "../webhooks/enqueue.ts";
import { type Authority, type Commit, commitTo, type Outbox, type WriteContext } from "../webhooks/outbox.ts";
import { ownHosts } from "../webhooks/url-rules.ts";
import type { WebhookContext } from "../webhooks/write-webhooks.ts";

// What verbs take besides their input, for every surface: on whose behalf, on which data, at what time.

/** The part of a request's context that these are made of. The contexts of all surfaces have it. */
export interface Requesting {
  env: Env;
  executionCtx: { waitUntil(work: Promise<unknown>): void };
  get(name: "requestId"): string;
  get(name: "isLocal"): boolean;
}

/** On whose behalf a request acts. `store`: the database of the account's log. `scopes`: what the actor may read of events; null: all. */
export interface Acting {
  actor: Actor;
  store: string;
  authority?: Authority | undefined;
  scopes: readonly string[] | null;
}

export const readContext = (c: Requesting, { actor }: Pick<Acting, "actor">): ReadContext & { guards: Guards } => ({
  db: connect(c.env.DB),
  guards: c.env.KEY_GUARD,
  actor,
  now: Date.now(),
});

/** For verbs that read the log, or figures made of it. */
export const logContext = (
  c: Requesting,
  acting: Pick<Acting, "actor" | "store">,
): LogReadContext & { refresh: Refresh; guards: Guards } => ({
  ...readContext(c, acting),
  activity: connectToStore(c.env, acting.store),
  refresh: refreshBy(c.env, acting.store),
});

/** Where changes are written. Deliveries are enqueued once the response has gone. */
export const outboxFor = (c: Requesting, authority?: Authority): Outbox => ({
  db: connect(c.env.DB),
  enqueue: enqueueVia(c.env.DELIVERIES, (work) => c.executionCtx.waitUntil(work)),
  requestId: c.get("requestId"),
  ...(authority && { authority }),
});

const usualCommit = (c: Requesting, { authority }: Acting): Commit => commitTo(outboxFor(c, authority));

export const writeContext = (c: Requesting, acting: Acting, commit = usualCommit(c, acting)): WriteContext & { guards: Guards } => ({
  ...readContext(c, acting),
  commit,
});

/** For verbs that make and change keys. */
export function keyContext(c: Requesting, acting: Acting, commit = usualCommit(c, acting)): KeyContext & { signing: SigningSecret } {
  const [signing] = signingSecretsIn(c.env);
  return { ...logContext(c, acting), signing, commit };
}

/** For verbs that make and change webhooks. */
export const webhookContext = (c: Requesting, acting: Acting, commit = usualCommit(c, acting)): WebhookContext => ({
  ...readContext(c, acting),
  commit,
  scopes: acting.scopes,
  encryption: encryptionSecrets(c.env),
  urls: { ownHosts: ownHosts(c.env.PUBLIC_ORIGIN), isLocal: c.get("isLocal") },
});
