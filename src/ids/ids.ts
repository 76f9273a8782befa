import { bytesToHex } from "@noble/hashes/utils.js";
import { v7 } from "uuid";
import type { IdPrefix } from "../registry/manifests.ts";

const hexOfTime = (timeMs: number) => Math.max(0, timeMs).toString(16).padStart(12, "0");

let latest = { timeMs: -1, seq: 0 };

/**
 * Returns a new opaque id: the prefix and a UUIDv7 in hex. Ids of one kind sort by their time of creation (RFC 9562, 5.7) and,
 * within a millisecond of one isolate, by their order (6.2, method 1).
 */
export function newId(prefix: IdPrefix, timeMs: number): string {
  const seq = timeMs === latest.timeMs ? (latest.seq + 1) >>> 0 : firstSeq();
  latest = { timeMs, seq };
  return `${prefix}_${bytesToHex(v7({ msecs: timeMs, seq }, new Uint8Array(16)))}`;
}

/** Random, and low enough to be counted up from. */
const firstSeq = () => (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;

/** The milliseconds since the epoch at which an id of `newId` was made. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(id.indexOf("_") + 1, id.indexOf("_") + 13), 16);
}

/** The bound below every id made at or after `timeMs` and above every earlier one. */
export function idBound(prefix: IdPrefix, timeMs: number): string {
  return `${prefix}_${hexOfTime(timeMs)}`;
}
