import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** SHA-256 of a text (as UTF-8) or of bytes, in hex. A secret key has 190 random bits, so nothing slower is needed for one. */
export const hashOf = (content: string | Uint8Array): string =>
  bytesToHex(sha256(typeof content === "string" ? utf8ToBytes(content) : content));
