import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

const bytesOf = (content: string | Uint8Array): Uint8Array => (typeof content === "string" ? utf8ToBytes(content) : content);

/**
 * Returns the SHA-256 hash of a text (as UTF-8) or of bytes, in hex. Secret keys do not need a slow hash, because a secret key has 190
 * random bits.
 */
export const hashOf = (content: string | Uint8Array): string => bytesToHex(sha256(bytesOf(content)));

/** Computes HMAC-SHA256 (RFC 2104) under one key. */
export type Mac = (content: string | Uint8Array) => Uint8Array;

/**
 * Returns a function that computes HMAC-SHA256 under a key. Reuse the returned function, because preparing a key takes as long as computing one HMAC.
 */
export function macWith(key: string | Uint8Array): Mac {
  const prepared = hmac.create(sha256, bytesOf(key));
  return (content) => prepared.clone().update(bytesOf(content)).digest();
}
