import { v7 } from "uuid";

export type IdPrefix = "acc" | "usr" | "tsk" | "req" | "evt";

const hexOfTime = (timeMs: number) => Math.max(0, timeMs).toString(16).padStart(12, "0");

/** A new opaque id: the prefix and a UUIDv7 in hex, so that ids of one kind sort by the time they were made (RFC 9562, 5.7). */
export function newId(prefix: IdPrefix, timeMs: number): string {
  return `${prefix}_${v7({ msecs: timeMs }).replaceAll("-", "")}`;
}

/** The milliseconds since the epoch at which an id of `newId` was made. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(id.indexOf("_") + 1, id.indexOf("_") + 13), 16);
}

/** The bound below every id made at or after `timeMs` and above every earlier one. */
export function idBound(prefix: IdPrefix, timeMs: number): string {
  return `${prefix}_${hexOfTime(timeMs)}`;
}
