import { createApp } from "./app.ts";
import { runJobs } from "./scheduled/run-jobs.ts";
import { consume } from "./webhooks/consume.ts";
import { delivererFor } from "./webhooks/deliverer.ts";
import type { DeliveryMessage } from "./webhooks/enqueue.ts";

export { ActivityWriter } from "./activity/log-writer/activity-writer.ts";
export { AccountBudget } from "./admission/account-budget.ts";
export { KeyGuard } from "./admission/key-guard.ts";
export { ServiceTokens } from "./service-tokens/service-tokens.ts";
export { Verify } from "./verification/entrypoint.ts";

/** A build constant. True only in a local build. `npm start` makes a local build. */
declare const LOCAL_BUILD: boolean;
/**
 * A build constant. True only in a local build in which the overview needs no sign-in. `npm start` without `--sign-in` makes such a build.
 */
declare const OPEN_OVERVIEW: boolean;

const app = createApp({ isLocal: LOCAL_BUILD, isOpen: OPEN_OVERVIEW });

export class Deliverer extends delivererFor({ isLocal: LOCAL_BUILD }) {}

const deliverWith =
  ({ exports }: ExecutionContext) =>
  async (deliveryId: string): Promise<void> =>
    exports.Deliverer.deliver(deliveryId);

export default {
  fetch: app.fetch,
  queue: (batch, env, ctx) => consume(batch, env.DEAD_DELIVERIES_QUEUE, deliverWith(ctx)),
  scheduled: ({ scheduledTime }, env, ctx) => runJobs(env, scheduledTime, deliverWith(ctx)),
} satisfies ExportedHandler<Env, DeliveryMessage>;
