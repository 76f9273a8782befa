import { hashOf } from "../crypto/hash.ts";
import { urlOf } from "../http/request-url.ts";
import { runOnce } from "../idempotency/run-once.ts";
import { type Commit, commitTo } from "../webhooks/outbox.ts";
import { outbox, readContext } from "./acting.ts";
import type { PageContext } from "./context.ts";
import type { Form } from "./forms.ts";

/** What each form that acts carries: so pressing twice, loading the page again and the back button act once. */
export const newNonce = (): string => crypto.randomUUID();

/**
 * Runs a verb once for each form that was shown. Returns `repeated`, with the id of what was made, if this form was sent before;
 * a secret is not shown again. A form without a nonce was made by hand, and runs each time.
 */
export async function runFormOnce<Result>(
  c: PageContext,
  form: Form,
  run: (commit: Commit) => Promise<Result>,
  /** What is kept of the result: the id of what was made. */
  idOf: (result: Result) => string = () => "",
): Promise<{ result: Result } | { repeated: string }> {
  const nonce = form.text("nonce");
  if (nonce === "") return { result: await run(commitTo(outbox(c))) };
  const { actor, now } = readContext(c);
  const outcome = await runOnce({
    outbox: outbox(c),
    now,
    // Not counted: a client of the API that has stored all its responses closes no form.
    request: {
      accountId: actor.accountId,
      operation: `POST ${urlOf(c).pathname}`,
      key: nonce.slice(0, 255),
      fingerprint: hashOf(nonce),
      isCounted: false,
    },
    run,
    toStore: (result) => ({ status: 200, headers: {}, body: idOf(result) }),
  });
  return "stored" in outcome ? { repeated: outcome.stored.body } : outcome;
}
