import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

const bytesOf = (content: string | Uint8Array): Uint8Array => (typeof content === "string" ? utf8ToBytes(content) : content);

/** Returns the SHA-256 of a text (as UTF-8) or of bytes, in hex. A secret key has 190 random bits, so it needs nothing slower. */
export const hashOf = (content: string | Uint8Array): string => bytesToHex(sha256(bytesOf(content)));

/** Computes HMAC-SHA256 (RFC 2104) under one key. */
export type Mac = (content: string | Uint8Array) => Uint8Array;

/** Returns the HMAC-SHA256 under a key. Keep it for further contents: to prepare a key takes as long as to use it. */
export function macWith(key: string | Uint8Array): Mac {
  const prepared = hmac.create(sha256, bytesOf(key));
  return (content) => prepared.clone().update(bytesOf(content)).digest();
}
