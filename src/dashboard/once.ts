import { hashOf } from "../crypto/hash.ts";
import { urlOf } from "../http/request-url.ts";
import { AlreadyDone, findStored, storingCommit } from "../idempotency/store.ts";
import { type Commit, commitTo } from "../webhooks/outbox.ts";
import { outbox, reading } from "./acting.ts";
import type { PageContext } from "./context.ts";
import type { Form } from "./forms.ts";

/** What each form that acts carries: so pressing twice, loading the page again and the back button act once. */
export const newNonce = (): string => crypto.randomUUID();

/**
 * Runs a verb once for each form that was shown. Answers `repeated`, with the id of what was made, where this form was sent before;
 * a secret is not shown again. A form without a nonce was made by hand, and runs each time.
 */
export async function runOnce<Result>(
  c: PageContext,
  form: Form,
  run: (commit: Commit) => Promise<Result>,
  /** What is kept of the result: the id of what was made. */
  idOf: (result: Result) => string = () => "",
): Promise<{ result: Result } | { repeated: string }> {
  const nonce = form.text("nonce");
  const { db, actor, now } = reading(c);
  const { pathname } = urlOf(c);
  const request = { accountId: actor.accountId, operation: `POST ${pathname}`, key: nonce.slice(0, 255), fingerprint: hashOf(nonce) };
  if (nonce === "") return { result: await run(commitTo(outbox(c))) };
  const before = await findStored(db, request, now);
  if (before) return { repeated: before.body };
  try {
    return {
      // Not counted: a client of the API that has stored all its responses closes no form.
      result: await run(
        storingCommit(outbox(c), { ...request, isCounted: false }, now, (result: Result) => ({
          status: 200,
          headers: {},
          body: idOf(result),
        })),
      ),
    };
  } catch (error) {
    if (!(error instanceof AlreadyDone)) throw error;
    return { repeated: (await findStored(db, request, now))?.body ?? "" };
  }
}
