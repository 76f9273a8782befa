import { notReported } from "../../usage/rollups.ts";
import type { Entry } from "../entry.ts";
import { bloomFilterOf, mayContain } from "../segments/bloom-filter.ts";

/** A filter for log entries. A field that is not set matches all entries. */
export interface ActivityFilter {
  method?: string | undefined;
  /**
   * Each number is a status code or the first digit of a status class. For example, 404 selects one status, and 4 selects all statuses from
   * 400 to 499. 0 selects the requests whose response was not reported.
   */
  statuses?: readonly number[] | undefined;
  keyId?: string | undefined;
  path?: string | undefined;
  /** The route, for example `/api/v1/tasks/{id}`. */
  route?: string | undefined;
  /** The earliest time of a request, in milliseconds since the epoch. */
  from?: number | undefined;
  /** The time before which all requests were made, in milliseconds since the epoch. */
  to?: number | undefined;
}

/** Returns whether a status is among those of a filter. */
export const hasStatus = (statuses: ActivityFilter["statuses"], status: number): boolean =>
  statuses === undefined || statuses.some((each) => each === status || (each !== notReported && each === Math.floor(status / 100)));

/** Returns whether an entry matches a filter. The times `from` and `to` of the filter are not compared, because ids contain them. */
export function matches({ method, statuses, keyId, path, route }: ActivityFilter, entry: Entry): boolean {
  if (method !== undefined && entry.method !== method) return false;
  if (keyId !== undefined && entry.keyId !== keyId) return false;
  if (path !== undefined && entry.path !== path) return false;
  if (route !== undefined && entry.route !== route) return false;
  const status = entry.status ?? notReported;
  return hasStatus(statuses, status);
}

/** Returns a summary of entries: a Bloom filter of the values by which entries can be filtered, without routes. */
export function summaryOf(entries: readonly Entry[]): Uint8Array {
  const values = new Set<string>();
  for (const { method, status, keyId, path } of entries) {
    values.add(`method ${method}`).add(`key ${keyId}`).add(`path ${path}`);
    values.add(`status ${status ?? notReported}`);
    if (status !== null) values.add(`status ${Math.floor(status / 100)}`);
  }
  return bloomFilterOf(values);
}

/** Returns false if none of the entries with this summary matches the filter. The times of the filter are not compared. */
export function mayMatch({ method, statuses, keyId, path }: ActivityFilter, summary: Uint8Array): boolean {
  const mayHave = (name: string, value: string | number | undefined) => value === undefined || mayContain(summary, `${name} ${value}`);
  return (
    mayHave("method", method) &&
    mayHave("key", keyId) &&
    mayHave("path", path) &&
    (statuses === undefined || statuses.some((status) => mayHave("status", status)))
  );
}
