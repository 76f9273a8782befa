import { expect, it } from "vitest";
import { endOfChallenge, makeChallenge } from "../../../src/identity/challenge.ts";

const secret = (name: string) => ({ name, secret: `${name}-secret-of-the-tests`.padEnd(40, "-") });
const now = Date.UTC(2026, 10, 23);

it("A challenge is good until its end, for its purpose, under a secret that is live, and unchanged", () => {
  const bytes = makeChallenge("sign-in", now + 1000, [secret("a")]);
  const text = Buffer.from(bytes).toString("base64url");
  expect(endOfChallenge(text, "sign-in", now, [secret("b"), secret("a")])).toBe(now + 1000);
  expect(endOfChallenge(text, "confirm", now, [secret("a")])).toBeNull();
  expect(endOfChallenge(text, "sign-in", now + 1000, [secret("a")])).toBeNull();
  expect(endOfChallenge(text, "sign-in", now, [secret("b")])).toBeNull();
  for (let index = 0; index < bytes.length; index++) {
    const changed = Uint8Array.from(bytes, (byte, at) => (at === index ? byte ^ 1 : byte));
    expect(endOfChallenge(Buffer.from(changed).toString("base64url"), "sign-in", now, [secret("a")]), `byte ${index}`).toBeNull();
  }
  for (const other of ["", "x", text.slice(1), `${text}AA`]) expect(endOfChallenge(other, "sign-in", now, [secret("a")])).toBeNull();
});

it("No two challenges are alike", () => {
  const made = Array.from({ length: 100 }, () => Buffer.from(makeChallenge("add", now, [secret("a")])).toString("base64url"));
  expect(new Set(made).size).toBe(100);
});
