import { describe, expect, it } from "vitest";
import { makeChallenge, verifyChallenge } from "../../../src/identity/challenge.ts";

const secret = (name: string) => ({ name, secret: `${name}-secret-of-the-tests`.padEnd(40, "-") });
const now = Date.UTC(2026, 10, 23);

describe("A WebAuthn challenge", () => {
  it("is valid only unchanged, until its expiry, for its purpose, and while its secret is configured", () => {
    const bytes = makeChallenge("sign-in", now + 1000, [secret("a")]);
    const challenge = Buffer.from(bytes).toString("base64url");
    expect(verifyChallenge(challenge, "sign-in", now, [secret("b"), secret("a")])).toBe(now + 1000);
    expect(verifyChallenge(challenge, "confirm", now, [secret("a")])).toBeNull();
    expect(verifyChallenge(challenge, "sign-in", now + 1000, [secret("a")])).toBeNull();
    expect(verifyChallenge(challenge, "sign-in", now, [secret("b")])).toBeNull();
    for (let index = 0; index < bytes.length; index++) {
      const changed = Uint8Array.from(bytes, (byte, at) => (at === index ? byte ^ 1 : byte));
      expect(verifyChallenge(Buffer.from(changed).toString("base64url"), "sign-in", now, [secret("a")]), `byte ${index}`).toBeNull();
    }
    for (const malformed of ["", "x", challenge.slice(1), `${challenge}AA`])
      expect(verifyChallenge(malformed, "sign-in", now, [secret("a")])).toBeNull();
  });
});
