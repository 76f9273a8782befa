import { hashOf } from "../lib/crypto/hash.ts";

/** Returns a token of 256 random bits for a link or a cookie, and its hash. Only the hash is stored. */
export function newToken(): { token: string; tokenHash: string } {
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  return { token, tokenHash: hashOf(token) };
}
