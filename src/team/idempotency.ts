import { type PostResponse, runPost } from "../api/idempotency.ts";
import { operatorContext, type TeamContext } from "./context.ts";

/**
 * Handles a POST of the team API that takes an Idempotency-Key. The keys of different tokens are different. `run` must write the change in one batch through
 * the outbox of the context that it gets. `beforeReplay` completes the work that follows the change, in case the first request was interrupted.
 */
export const runTeamPost = <Result, Body extends object, Status extends 200 | 201>(
  c: TeamContext,
  run: (context: ReturnType<typeof operatorContext>) => Promise<Result>,
  respond: (result: Result) => PostResponse<Body, Status>,
  beforeReplay: () => Promise<void> = async () => {},
) => {
  const context = operatorContext(c);
  const id = context.tokenId ?? `operator ${context.operator}`;
  return runPost(
    c,
    { id, isCounted: false, outbox: context.outbox },
    { run: (outbox) => run({ ...context, outbox }), respond, beforeReplay },
  );
};
