import { bytesToHex } from "@noble/hashes/utils.js";
import { v7 } from "uuid";

const hexOfTime = (timeMs: number) => Math.max(0, timeMs).toString(16).padStart(12, "0");

let latest = { timeMs: -1, seq: 0 };

/**
 * Returns a new opaque id: the prefix and a UUIDv7 in hex. Ids with the same prefix sort by creation time (RFC 9562, 5.7). If one isolate
 * creates several ids in the same millisecond, these ids still sort in their order of creation (RFC 9562, 6.2, method 1).
 */
export function newId(prefix: string, timeMs: number): string {
  const seq = timeMs === latest.timeMs ? (latest.seq + 1) >>> 0 : firstSeq();
  latest = { timeMs, seq };
  return `${prefix}_${bytesToHex(v7({ msecs: timeMs, seq }, new Uint8Array(16)))}`;
}

/** Returns a random start value from the lower half of the 32-bit range. This leaves room to count up. */
const firstSeq = () => (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;

/** Returns the creation time of an id from `newId`, in milliseconds since the epoch. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(id.indexOf("_") + 1, id.indexOf("_") + 13), 16);
}

/**
 * Returns a string to compare ids with. Ids that were created before `timeMs` sort before the string. All other ids with the same prefix
 * sort after the string.
 */
export function idBound(prefix: string, timeMs: number): string {
  return `${prefix}_${hexOfTime(timeMs)}`;
}
