import { createApp, runScheduledJobs } from "./app.ts";
import type { DeliveryMessage } from "./outbox/enqueue.ts";
import { consume } from "./webhooks/deliveries/consume.ts";
import { delivererFor } from "./webhooks/deliveries/deliverer.ts";

export { AccountBudget } from "./budget/account-budget.ts";
export { KeyGuard } from "./guard/key-guard.ts";
export { ActivityWriter } from "./log/writer/activity-writer.ts";
export { ServiceTokens } from "./team/tokens/service-tokens.ts";
export { Verify } from "./team/verify/entrypoint.ts";

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
  scheduled: ({ scheduledTime }, env, ctx) => runScheduledJobs(env, scheduledTime, deliverWith(ctx)),
} satisfies ExportedHandler<Env, DeliveryMessage>;
