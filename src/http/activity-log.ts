import { ActivityBuffer } from "../activity/buffer.ts";
import { firstStore } from "../activity/databases.ts";
import type { Entry } from "../activity/entry.ts";
import type { AggregationKey } from "../activity/entry-aggregator.ts";
import { sendEntries, writerOf, writersOf } from "../activity/writers.ts";
import { maskKeys } from "../keys/mask-keys.ts";
import { clientCountry } from "./client-address.ts";
import type { AppContext, RecognizedKey } from "./context.ts";
import type { Finish } from "./request-context.ts";
import { shownPath } from "./request-path.ts";

const longestUserAgent = 128;

/** One of the isolate for each writer: entries of all its requests are sent together. */
const buffers = new Map<string, ActivityBuffer>();

function bufferOf(name: string): ActivityBuffer {
  const buffer = buffers.get(name) ?? new ActivityBuffer();
  buffers.set(name, buffer);
  return buffer;
}

/**
 * Puts every request of a recognised key into the log, once its response is ready: whatever made it, with the status that it has.
 * The entry is stored after the response has gone. `unknownRoute`: what stands for paths that no route has.
 */
export const activityLog =
  ({ unknownRoute }: { unknownRoute: string }): Finish =>
  (c) => {
    const recognized = c.get("recognized");
    if (!recognized) return;
    const now = Date.now();
    const key = aggregationKey(c, recognized, unknownRoute);
    const { accountId, activityStore: store = firstStore } = recognized.admission.key;
    const number = writerOf(accountId, writersOf(c.env));
    const buffer = bufferOf(`${store}/${number}`);
    // What no limit bounds shares an entry, which is made only where there is none yet: most of a flood makes none.
    if (isCounted(c, recognized)) buffer.add(entryOf(c, recognized, key, now));
    else buffer.addShared(key, { startedAt: c.get("startedAt"), endedAt: now }, () => entryOf(c, recognized, key, now));
    if (buffer.isFlushing(now)) return;
    c.executionCtx.waitUntil(buffer.flush((entries, dropped) => sendEntries(c.env, { store, number }, entries, dropped)));
  };

/** Whether a request used up one of the key's limit. */
const isCounted = (c: AppContext, { admission }: RecognizedKey): boolean =>
  admission.refusal === null && c.get("policy")?.isCounted !== false;

const aggregationKey = (c: AppContext, { keyId, ip }: RecognizedKey, unknownRoute: string): AggregationKey => ({
  keyId,
  method: c.req.method,
  route: c.get("policy")?.route ?? unknownRoute,
  status: c.res.status,
  ip: ip || null,
  errorCode: c.res.status >= 400 ? (c.get("errorCode") ?? null) : null,
});

function entryOf(c: AppContext, recognized: RecognizedKey, key: AggregationKey, now: number): Entry {
  const { admission } = recognized;
  return {
    ...key,
    accountId: admission.key.accountId,
    id: c.get("requestId"),
    path: shownPath(c),
    durationMs: now - c.get("startedAt"),
    country: clientCountry(c),
    userAgent: maskKeys(c.req.header("User-Agent") ?? "", longestUserAgent) || null,
    admitted: admission.refusal === null,
    counted: isCounted(c, recognized),
    count: 1,
    secret: admission.secret ?? null,
  };
}
