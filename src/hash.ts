import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

// Every request takes a hash: what that needs is made once and used again.
const blank = sha256.create();
const hasher = sha256.create();
const encoder = new TextEncoder();
const ascii = new Uint8Array(128);
const digest = new Uint8Array(blank.outputLen);
/** As much of `ascii` as the latest text filled: secret keys are all as long. */
let filled = ascii.subarray(0, 0);

/** SHA-256 of a text in UTF-8, hex. A secret key has 190 random bits, so nothing slower is needed for one. */
export function hashOf(text: string): string {
  blank._cloneInto(hasher).update(utf8Of(text)).digestInto(digest);
  // What lives on keeps nothing of a secret.
  hasher.destroy();
  ascii.fill(0);
  return bytesToHex(digest);
}

/** A short text of ASCII alone, which every secret key is, is spared an array of its own. */
function utf8Of(text: string): Uint8Array {
  if (text.length > ascii.length) return encoder.encode(text);
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit > 0x7f) return encoder.encode(text);
    ascii[index] = unit;
  }
  if (filled.length !== text.length) filled = ascii.subarray(0, text.length);
  return filled;
}
