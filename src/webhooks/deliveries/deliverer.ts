import { WorkerEntrypoint } from "cloudflare:workers";
import { connect } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import { type DeliveryMessage, enqueueVia } from "../../outbox/enqueue.ts";
import { encryptionSecrets } from "../subscriptions/encryption.ts";
import { ownHosts } from "../subscriptions/url-rules.ts";
import { deliver } from "./deliver.ts";

/** The bindings that deliveries need. */
export interface DeliveryEnv {
  DB: D1Database;
  DELIVERIES: Queue<DeliveryMessage>;
  WEBHOOK_ENCRYPTION_SECRETS: string;
  PUBLIC_ORIGIN: string;
}

/**
 * Attempts each delivery in a separate Worker invocation. Each call returns immediately, and the POST continues in the background. A receiver
 * that hangs therefore does not delay other deliveries.
 */
export const delivererFor = ({ isLocal }: { isLocal: boolean }) =>
  class Deliverer extends WorkerEntrypoint<DeliveryEnv> {
    deliver(deliveryId: string): void {
      const { DB, DELIVERIES } = this.env;
      const enqueue = enqueueVia(DELIVERIES, (work) => this.ctx.waitUntil(work));
      const context = {
        db: connect(DB),
        fetch: (input: RequestInfo | URL, init?: RequestInit) => fetch(input, init),
        now: Date.now,
        random: Math.random,
        encryption: encryptionSecrets(this.env),
        urls: { isLocal, ownHosts: ownHosts(this.env.PUBLIC_ORIGIN) },
        enqueue,
      };
      this.ctx.waitUntil(
        deliver(context, deliveryId).catch((error) => {
          console.error(`the delivery ${deliveryId} waits for the sweep:`, messagesOf(error));
        }),
      );
    }
  };
