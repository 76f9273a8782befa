import { describe, expect, it } from "vitest";
import { keyIdOf, newKeyId, newSecretKey, signingSecretsIn } from "../../../src/credentials/key-format.ts";

const secretA = { name: "a", secret: "first secret, of thirty-two characters" };
const secretB = { name: "b", secret: "second secret, of thirty-two characters" };

describe("A secret key", () => {
  it("has the documented format and contains the id of its key", () => {
    const id = newKeyId();
    const key = newSecretKey(id, secretA);
    expect(key).toMatch(/^dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/);
    expect(`key_${key.slice(4, 20)}`).toBe(id);
    expect(keyIdOf(key, [secretA])).toBe(id);
  });

  it("is invalid if any one of its characters is changed", () => {
    const key = newSecretKey(newKeyId(), secretA);
    for (let at = 0; at < key.length; at++) {
      const changed = key.slice(0, at) + (key[at] === "x" ? "y" : "x") + key.slice(at + 1);
      expect(keyIdOf(changed, [secretA]), changed).toBeNull();
    }
  });

  it("is invalid with an extra or a missing character at its start or end", () => {
    const key = newSecretKey(newKeyId(), secretA);
    for (const changed of [` ${key}`, `${key}\n`, `${key}0`, key.slice(1), key.slice(0, -1), ""])
      expect(keyIdOf(changed, [secretA])).toBeNull();
  });

  it("is valid as long as the signing secret that it names is configured", () => {
    const [older, newer] = [newSecretKey(newKeyId(), secretA), newSecretKey(newKeyId(), secretB)];
    expect([older, newer].map((key) => keyIdOf(key, [secretB, secretA]) !== null)).toEqual([true, true]);
    expect([older, newer].map((key) => keyIdOf(key, [secretB]) !== null)).toEqual([false, true]);
  });

  it("is invalid under another signing secret with the same name", () => {
    expect(keyIdOf(newSecretKey(newKeyId(), secretA), [{ name: "a", secret: secretB.secret }])).toBeNull();
  });
});

describe("KEY_SIGNING_SECRETS", () => {
  it("is parsed as pairs of a name and a secret, in the given order", () => {
    const [first, second] = signingSecretsIn({ KEY_SIGNING_SECRETS: `b:${"s".repeat(32)}, a:${"t".repeat(40)}` });
    expect([first, second]).toEqual([
      { name: "b", secret: "s".repeat(32) },
      { name: "a", secret: "t".repeat(40) },
    ]);
  });

  it.each(["", "a", "a:short", `ab:${"s".repeat(32)}`, `-:${"s".repeat(32)}`])("cannot be %j", (text) => {
    expect(() => signingSecretsIn({ KEY_SIGNING_SECRETS: text })).toThrow(/KEY_SIGNING_SECRETS/);
  });
});
