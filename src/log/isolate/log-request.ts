import { maskSecrets } from "../../credentials/mask-keys.ts";
import { getOrInsert } from "../../lib/get-or-insert.ts";
import { type Entry, notRecorded } from "../entry.ts";
import { sendEntries, type WriterEnv } from "../writers.ts";
import { ActivityBuffer } from "./buffer.ts";
import type { AggregationKey } from "./entry-aggregator.ts";

const maxUserAgent = 128;

/** The data to log about a request with a key and about the response to this request. Times are in milliseconds since the epoch. */
export interface LoggedRequest extends AggregationKey, Pick<Entry, "admitted" | "counted" | "secret"> {
  /** The name of the account's log writer. */
  logWriter: string;
  startedAt: number;
  endedAt: number;
  /**
   * Returns the fields that are needed only for a new entry. This function is called only when an entry is created. In a flood, most
   * requests therefore skip this work.
   */
  details: () => Pick<Entry, "id" | "path" | "country" | "cost" | "violated" | "limits"> &
    Partial<Pick<Entry, "problem">> & { userAgent: string };
}

/**
 * The buffers of this isolate, one per log writer. Each buffer collects entries from different requests and sends the collected entries
 * together.
 */
const buffers = new Map<string, ActivityBuffer>();

/**
 * Adds a request to the log. The entry is stored in the background, after the response. `waitUntil` receives the promise of this background
 * work.
 */
export function logRequest(env: WriterEnv, waitUntil: (work: Promise<void>) => void, request: LoggedRequest): void {
  const { logWriter, counted, startedAt, endedAt } = request;
  const buffer = getOrInsert(buffers, logWriter, () => new ActivityBuffer());
  // Only requests that do not count against the limit can share an entry. An open entry stands alone, because its response is reported later.
  if (counted || request.status === null) buffer.add(entryOf(request));
  else buffer.addShared(request, { startedAt, endedAt }, () => entryOf(request));
  if (!buffer.isFlushing(endedAt)) waitUntil(buffer.flush((batch) => sendEntries(env, logWriter, batch)));
}

function entryOf({ logWriter: _, missingScope: __, reason: ___, startedAt, endedAt, details, ...entry }: LoggedRequest): Entry {
  const { userAgent, ...more } = details();
  return {
    ...entry,
    ...notRecorded,
    ...more,
    durationMs: entry.status === null ? null : Math.max(0, endedAt - startedAt),
    userAgent: maskSecrets(userAgent, maxUserAgent) || null,
    count: 1,
  };
}
