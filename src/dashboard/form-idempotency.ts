import { urlOf } from "../http/request-url.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { runIdempotently } from "../outbox/idempotency/run-idempotently.ts";
import { type Commit, commitTo } from "../outbox/outbox.ts";
import type { PageContext } from "./context.ts";
import type { Form } from "./forms.ts";
import { contextOf, outbox } from "./operation-contexts.ts";

/**
 * Returns a nonce for a form. A form with a nonce acts only once, even if the visitor presses the button twice, reloads the page or goes
 * back.
 */
export const newNonce = (): string => crypto.randomUUID();

/**
 * Runs the operation of a form only once. If the form was sent before, returns `repeated` with the id of the created resource, but without
 * its secret. A form without a nonce was written by hand, so its operation runs every time.
 */
export async function runFormIdempotently<Result>(
  c: PageContext,
  form: Form,
  run: (commit: Commit) => Promise<Result>,
  /** Returns the id of the created resource. The idempotency record stores only this id. */
  idOf: (result: Result) => string = () => "",
): Promise<{ result: Result } | { repeated: string }> {
  const nonce = form.text("nonce");
  if (nonce === "") return { result: await run(commitTo(outbox(c))) };
  const { actor, now } = contextOf(c);
  const outcome = await runIdempotently({
    outbox: outbox(c),
    now,
    // Responses to forms do not count toward the account's limit of stored responses. Otherwise, an API client that reaches the limit could
    // block forms.
    request: {
      accountId: actor.accountId,
      operation: `POST ${urlOf(c).pathname}`,
      key: nonce.slice(0, 255),
      fingerprint: hashOf(nonce),
      isCounted: false,
    },
    run: (stored) => run(commitTo(stored)),
    toStore: (result) => ({ status: 200, headers: {}, body: idOf(result) }),
  });
  return "stored" in outcome ? { repeated: outcome.stored.body } : outcome;
}
