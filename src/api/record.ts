import type { Entry } from "../activity/entry.ts";
import { Gatherer } from "../activity/gatherer.ts";
import type { Likeness } from "../activity/refusal-folder.ts";
import { storeEntries } from "../activity/store-entries.ts";
import { connect } from "../db/client.ts";
import type { ApiContext, Call, Recognized } from "./context.ts";

const longestPath = 1024;
const longestUserAgent = 256;
const longestIp = 45;

/** One for the isolate: entries of all its requests are written together. */
const gatherer = new Gatherer();

/** Puts an answered request of a real key into the log, after the answer has gone. */
export function record(c: ApiContext, call: Call, recognized: Recognized, now: number): void {
  if (recognized.admission.refusal === null) gatherer.add(entryOf(c, call, recognized, now));
  // Made only where it is kept: in a flood, most refusals go into an entry that is there already.
  else gatherer.addRefusal(likenessOf(call, recognized), call.startedAt, () => entryOf(c, call, recognized, now));
  if (gatherer.isTaken(now)) return;
  const { DB, KEY_GUARD } = c.env;
  const handToGuard = async (guardedKeyId: string, entries: Entry[]) => KEY_GUARD.getByName(guardedKeyId).journal(entries);
  c.executionCtx.waitUntil(gatherer.gather((entries) => storeEntries({ db: connect(DB), handToGuard }, entries)));
}

const likenessOf = ({ method, operation, status, errorCode }: Call, { keyId, ip }: Recognized): Likeness => ({
  keyId,
  method,
  route: operation.route,
  status,
  ip: ip.slice(0, longestIp) || null,
  errorCode,
});

function entryOf(c: ApiContext, call: Call, recognized: Recognized, now: number): Entry {
  const { admission } = recognized;
  const country = c.req.raw.cf?.country;
  const admitted = admission.refusal === null;
  return {
    ...likenessOf(call, recognized),
    accountId: admission.key.accountId,
    id: call.requestId,
    path: call.place.pathname.slice(0, longestPath).toWellFormed(),
    durationMs: now - call.startedAt,
    country: typeof country === "string" ? country : null,
    userAgent: call.headers.get("User-Agent")?.slice(0, longestUserAgent).toWellFormed() ?? null,
    admitted,
    counted: admitted && call.operation.isCounted,
    count: 1,
  };
}
