import { expect, it } from "vitest";
import { hashOf } from "../../../src/lib/crypto/hash.ts";

it("hashOf returns the same SHA-256 hash as Web Crypto, independent of earlier calls", async () => {
  for (const length of [0, 1, 55, 56, 61, 63, 64, 65, 8000, 3, 128, 0]) {
    const text = "aé".repeat(length).slice(0, length);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    expect(hashOf(text)).toBe(Buffer.from(digest).toString("hex"));
  }
});
