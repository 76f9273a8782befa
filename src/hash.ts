import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

// Every request takes a hash: what that needs is made once and used again.
const blank = sha256.create();
const hasher = sha256.create();
const encoder = new TextEncoder();
const digest = new Uint8Array(blank.outputLen);

/** SHA-256 of a text in UTF-8, hex. A secret key has 190 random bits, so nothing slower is needed for one. */
export function hashOf(text: string): string {
  blank._cloneInto(hasher).update(encoder.encode(text)).digestInto(digest);
  hasher.destroy();
  return bytesToHex(digest);
}
