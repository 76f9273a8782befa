import type { Entry } from "../activity/entry.ts";
import { Gatherer } from "../activity/gatherer.ts";
import type { Likeness } from "../activity/refusal-folder.ts";
import { storeEntries } from "../activity/store-entries.ts";
import { connect } from "../db/client.ts";
import { type ApiContext, placeOf, type Recognized } from "./context.ts";

const longestPath = 1024;
const longestUserAgent = 256;
const longestIp = 45;

/** One for the isolate: entries of all its requests are written together. */
const gatherer = new Gatherer();

/** Puts an answered request of a real key into the log, after the answer has gone. */
export function record(c: ApiContext, { keyId, ip, admission }: Recognized, now: number): void {
  const startedAt = c.get("startedAt");
  const { route, isCounted } = c.get("operation");
  const admitted = admission.refusal === null;
  const likeness: Likeness = {
    keyId,
    method: c.req.method,
    route,
    status: c.res.status,
    ip: ip.slice(0, longestIp) || null,
    errorCode: c.get("errorCode") ?? null,
  };
  // Made only where it is kept: in a flood, most refusals go into an entry that is there already.
  const makeEntry = (): Entry => {
    const country = c.req.raw.cf?.country;
    return {
      ...likeness,
      accountId: admission.key.accountId,
      id: c.get("requestId"),
      path: placeOf(c).pathname.slice(0, longestPath).toWellFormed(),
      durationMs: now - startedAt,
      country: typeof country === "string" ? country : null,
      userAgent: c.req.header("user-agent")?.slice(0, longestUserAgent).toWellFormed() ?? null,
      admitted,
      counted: admitted && isCounted,
      count: 1,
    };
  };
  if (admitted) gatherer.add(makeEntry());
  else gatherer.addRefusal(likeness, startedAt, makeEntry);
  if (gatherer.isTaken(now)) return;
  const { DB, KEY_GUARD } = c.env;
  const handToGuard = async (guardedKeyId: string, entries: Entry[]) => KEY_GUARD.getByName(guardedKeyId).journal(entries);
  c.executionCtx.waitUntil(gatherer.gather((entries) => storeEntries({ db: connect(DB), handToGuard }, entries)));
}
