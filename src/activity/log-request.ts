import { maskKeys } from "../credentials/mask-keys.ts";
import { ActivityBuffer } from "./buffer.ts";
import { firstStore } from "./databases.ts";
import type { Entry } from "./entry.ts";
import type { AggregationKey } from "./entry-aggregator.ts";
import { sendEntries, type WriterEnv, writerOf, writersOf } from "./writers.ts";

const maxUserAgent = 128;

/** A request that was made with a key, and the response to the request, for the log. Times are in milliseconds since the epoch. */
export interface LoggedRequest extends AggregationKey, Pick<Entry, "accountId" | "admitted" | "counted" | "secret"> {
  /** The database that holds the account's log. */
  store?: string | undefined;
  startedAt: number;
  endedAt: number;
  /** Returns the fields that are needed only to create an entry. Called only when an entry is created, so most requests in a flood skip this work. */
  details: () => Pick<Entry, "id" | "path" | "country"> & { userAgent: string };
}

/** The buffers of this isolate, one per log writer. A buffer sends the entries of all requests of the isolate together. */
const buffers = new Map<string, ActivityBuffer>();

function bufferOf(name: string): ActivityBuffer {
  const buffer = buffers.get(name) ?? new ActivityBuffer();
  buffers.set(name, buffer);
  return buffer;
}

/** Writes a request to the log. The entry is stored after the response, in a promise that is passed to `waitUntil`. */
export function logRequest(env: WriterEnv, waitUntil: (work: Promise<void>) => void, request: LoggedRequest): void {
  const { accountId, store = firstStore, counted, startedAt, endedAt } = request;
  const number = writerOf(accountId, writersOf(env));
  const buffer = bufferOf(`${store}/${number}`);
  // Requests that do not count against the limit may share an entry.
  if (counted) buffer.add(entryOf(request));
  else buffer.addShared(request, { startedAt, endedAt }, () => entryOf(request));
  if (!buffer.isFlushing(endedAt)) waitUntil(buffer.flush((entries, dropped) => sendEntries(env, { store, number }, entries, dropped)));
}

function entryOf({ store: _, startedAt, endedAt, details, ...entry }: LoggedRequest): Entry {
  const { userAgent, ...more } = details();
  return { ...entry, ...more, durationMs: endedAt - startedAt, userAgent: maskKeys(userAgent, maxUserAgent) || null, count: 1 };
}
