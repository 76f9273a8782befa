import { bytesToHex } from "@noble/hashes/utils.js";
import { v7 } from "uuid";
import type { IdPrefix } from "../registry/manifests.ts";

const hexOfTime = (timeMs: number) => Math.max(0, timeMs).toString(16).padStart(12, "0");

let latest = { timeMs: -1, seq: 0 };

/**
 * Returns a new opaque id: the prefix and a UUIDv7 in hex. Ids with the same prefix sort by creation time (RFC 9562, 5.7). Ids that one isolate
 * creates in the same millisecond keep their order of creation when sorted (RFC 9562, 6.2, method 1).
 */
export function newId(prefix: IdPrefix, timeMs: number): string {
  const seq = timeMs === latest.timeMs ? (latest.seq + 1) >>> 0 : firstSeq();
  latest = { timeMs, seq };
  return `${prefix}_${bytesToHex(v7({ msecs: timeMs, seq }, new Uint8Array(16)))}`;
}

/** Returns a random start value that leaves room to count up. */
const firstSeq = () => (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;

/** Returns the time when `newId` created an id, in milliseconds since the epoch. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(id.indexOf("_") + 1, id.indexOf("_") + 13), 16);
}

/**
 * Returns a string that separates ids by their time of creation. Ids from before `timeMs` sort before the string, and all other ids sort after it.
 */
export function idBound(prefix: IdPrefix, timeMs: number): string {
  return `${prefix}_${hexOfTime(timeMs)}`;
}
