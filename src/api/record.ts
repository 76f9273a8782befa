import type { Entry } from "../activity/entry.ts";
import { Gatherer } from "../activity/gatherer.ts";
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
  const operation = c.get("operation");
  const country = c.req.raw.cf?.country;
  const admitted = admission.refusal === null;
  gatherer.add(
    {
      accountId: admission.key.accountId,
      id: c.get("requestId"),
      keyId,
      method: c.req.method,
      path: placeOf(c).pathname.slice(0, longestPath).toWellFormed(),
      route: operation.route,
      status: c.res.status,
      durationMs: now - startedAt,
      ip: ip.slice(0, longestIp) || null,
      country: typeof country === "string" ? country : null,
      userAgent: c.req.header("user-agent")?.slice(0, longestUserAgent).toWellFormed() ?? null,
      errorCode: c.get("errorCode") ?? null,
      admitted,
      counted: admitted && operation.isCounted,
      count: 1,
    },
    startedAt,
  );
  if (gatherer.isTaken(now)) return;
  const { DB, KEY_GUARD } = c.env;
  const handToGuard = async (guardedKeyId: string, entries: Entry[]) => KEY_GUARD.getByName(guardedKeyId).journal(entries);
  c.executionCtx.waitUntil(gatherer.gather((entries) => storeEntries({ db: connect(DB), handToGuard }, entries)));
}
