import { hashOf } from "../crypto/hash.ts";

/** 256 random bits, as a link or a cookie carries them. Only the hash is kept. */
export function newToken(): { token: string; tokenHash: string } {
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  return { token, tokenHash: hashOf(token) };
}
