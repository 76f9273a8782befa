import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { maskKeys, maskSecrets } from "../../../src/credentials/mask-keys.ts";
import { setMaskedForms } from "../../../src/credentials/secret-form.ts";
import { newServiceToken, newTokenId } from "../../../src/credentials/service-token.ts";

const keys = Array.from({ length: 500 }, () => newSecretKey(newKeyId(), { name: "a", secret: "a secret of thirty-two characters" }));
const [key = ""] = keys;
const partsOf = (secretKey: string) => ({ publicPart: secretKey.slice(4, 20), secretPart: secretKey.slice(21) });
const percentEncode = (text: string) => text.replaceAll(/./gs, (character) => `%${character.charCodeAt(0).toString(16).padStart(2, "0")}`);

/** Finds the longest part of a secret that is still readable in a masked text. Returns the length of this part. */
function longestPieceLeft(masked: string, { secretPart }: { secretPart: string }): number {
  let longest = 0;
  for (let from = 0; from < secretPart.length; from++)
    while (masked.includes(secretPart.slice(from, from + longest + 1)) && from + longest < secretPart.length) longest++;
  return longest;
}

/** The different ways in which people and programs write a secret key. */
const forms: [name: string, write: (secretKey: string) => string][] = [
  ["in its standard format", (of) => of],
  ["with - for _", (of) => of.replaceAll("_", "-")],
  ["with an encoded space for _", (of) => of.replaceAll("_", "%20")],
  ["with an uppercase prefix", (of) => of.replace("dvo", "DVO")],
  ["without its prefix", (of) => of.slice(4)],
  ["without its prefix and its public part", (of) => partsOf(of).secretPart],
  ["without the second _", (of) => `dvo_${partsOf(of).publicPart}${partsOf(of).secretPart}`],
  ["without any _", (of) => of.replaceAll("_", "")],
  ["directly after a word", (of) => `key${of}`],
  ["after a byte that is not valid UTF-8", (of) => `%ff${of}`],
  ["with each character encoded", percentEncode],
  ["with each character encoded twice", (of) => percentEncode(percentEncode(of))],
  ["with each _ encoded five times", (of) => of.replaceAll("_", "%252525255F")],
  ["split in the middle by /", (of) => `${of.slice(0, 41)}/${of.slice(41)}`],
  [
    "with many separators",
    (of) => `dvo____${partsOf(of).publicPart}____${partsOf(of).secretPart.slice(0, 19)}.${partsOf(of).secretPart.slice(19)}`,
  ],
  ["split into four pieces", (of) => `${of.slice(0, 30)}/${of.slice(30, 40)}-${of.slice(40, 50)} ${of.slice(50)}`],
];

describe("maskKeys", () => {
  it("masks a service token, and leaves its id", () => {
    const id = newTokenId();
    const token = newServiceToken(id, { name: "a", secret: "a secret of the tests" });
    expect(maskKeys(`/x?token=${token}&y=1`)).toBe(`/x?token=${id}&y=1`);
  });

  it.each(forms)("masks a secret key %s", (_, write) => {
    const left = keys.map((each) => longestPieceLeft(maskKeys(`/api/v1/users/${write(each)}/tasks`), partsOf(each)));
    // Up to four consecutive characters of the secret may appear in the masked text by chance. Up to eleven lowercase letters between two
    // separators may stay readable, because these letters could be a word.
    expect(left.filter((length) => length > 11)).toEqual([]);
    expect(left.filter((length) => length > 4).length).toBeLessThan(25);
  });

  it("masks a secret key and the whole secret of a webhook in the same text", () => {
    for (const secret of ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_a+b/c=", "whsec_abcdefghijklmnopqrstuvwxyz012345"])
      expect(maskKeys(`/api/v1/${secret}?${key}`)).toBe(`/api/v1/whsec?dvo_${partsOf(key).publicPart}`);
  });

  it("masks a first or second half of a secret key in at least 97 % of cases", () => {
    for (const half of [keys.map((each) => each.slice(21, 41)), keys.map((each) => each.slice(41))])
      expect(half.filter((each) => maskKeys(`/api/v1/users/${each}`).includes(each)).length).toBeLessThan(15);
  });

  it("keeps the public part of a secret key and the text after the secret key", () => {
    const masked = `dvo_${partsOf(key).publicPart}`;
    for (const form of [key, key.replaceAll("_", "-"), key.replaceAll("_", "%5F"), `${key.slice(0, 41)}/4X${key.slice(41)}`])
      expect(maskKeys(`/api/v1/users/${form}/tasks`)).toBe(`/api/v1/users/${masked}/tasks`);
    expect(maskKeys(`curl/8 (${key}) libcurl`)).toBe(`curl/8 (${masked}) libcurl`);
    expect(maskKeys(maskKeys(`/api/v1/users/${key}/tasks`))).toBe(`/api/v1/users/${masked}/tasks`);
  });

  it("masks a secret key across the end of a text that is cut to its maximum length", () => {
    for (let before = 180; before < 260; before++)
      for (const form of [key, key.slice(21), percentEncode(key)])
        expect(longestPieceLeft(maskKeys(`${"/".repeat(before)}${form}`, 256), partsOf(key)), String(before)).toBeLessThanOrEqual(4);
  });

  it("masks the token of an operator in the same forms", () => {
    const token = "dvop_h3Jk-x_Lm90QwErTy12UiOpAsDfGhJkLzXcVbNm345";
    for (const form of [token, token.replace("_", "-"), percentEncode(token), token.replace("y12", "y12/")]) {
      expect(maskKeys(`/operator/${form}/x`)).toMatch(/^\/operator\/dvop\/?(x|$)/);
    }
  });

  it.each([
    "/api/v1/users/usr_019a1b2c3d4e7f8091a2b3c4d5e6f708/tasks",
    "/api/v1/keys/key_4fPq2rT8vX0zB6dH/rotate",
    "/api/v1/keys/dvo_4fPq2rT8vX0zB6dH",
    "/019a1b2c-3d4e-7f80-91a2-b3c4d5e6f708",
    "/api/v1/tasks?q=50%25%20of%20it&updated_after=2026-11-24T05:30:05.000Z",
    "estimatedCompletionDateTimeOfTheTask",
    "oauth2ClientCredentialsGrantType",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "/caf%C3%A9/%E6%97%A5",
    "dvorak",
    "",
  ])("does not change %j", (text) => {
    expect(maskKeys(text)).toBe(text);
  });

  it("cuts a text to its maximum length, and leaves no half of a character at the end", () => {
    expect(maskKeys("x".repeat(300), 256)).toBe("x".repeat(256));
    expect(maskKeys(`${"x".repeat(254)}%20`, 256)).toBe("x".repeat(254));
    expect(maskKeys(`${"x".repeat(255)}😀`, 256)).toBe(`${"x".repeat(255)}�`);
  });
});

describe("A secret of a registered form", () => {
  const form = { prefix: "sk_live_", minLength: 24, maxLength: 64, alphabet: "base64" };
  // `maskKeys` alone would mask a secret that looks random.
  const secret = "sk_live_ab9+cd/ef1gh2ij3kl4m==";
  const plain = "sk_live_0f8e7d6c5b4a39281706";
  const encoded = secret.replaceAll("+", "%2B").replaceAll("/", "%2F").replaceAll("=", "%3D");
  beforeAll(() =>
    setMaskedForms([
      form,
      { prefix: "key", minLength: 16, maxLength: 64, alphabet: "base62" },
      { prefix: "live:18|", minLength: 16, maxLength: 64, alphabet: "base62" },
    ]),
  );
  afterAll(() => setMaskedForms([]));

  it.each([
    ["in a path", `/orders/${plain}/lines`, "/orders/sk_live_***/lines"],
    ["in a query", `/orders?key=${plain}&a=1`, "/orders?key=sk_live_***&a=1"],
    ["behind an encoded space", `/orders?q=Bearer%20${plain}`, "/orders?q=Bearer%20sk_live_***"],
    ["in encoded quotes", `/orders?q=%22${plain}%22`, "/orders?q=%22sk_live_***%22"],
    ["with encoded characters", `/orders/${encoded}/lines`, "/orders/sk_live_***/lines"],
    ["with each character encoded", `/orders/${percentEncode(plain)}`, "/orders/sk_live_***"],
    ["directly after a word", `/bot${plain}/send`, "/botsk_live_***/send"],
    ["behind an encoded =", `/key%3D${plain}`, "/key=sk_live_***"],
    ["twice in one word", `/${plain}${plain}`, "/sk_live_***"],
    ["with a prefix that ends words elsewhere", "/live%3A18%7Cabcdefghijklmnop/x", "/live:18|***/x"],
    ["in a user agent", `app/1.0 (${plain}; linux)`, "app/1.0 (sk_live_***; linux)"],
  ])("is masked %s", (_, text, masked) => {
    expect(maskSecrets(text, 384)).toBe(masked);
  });

  it.each(["/keys/key_4fPq2rT8vX0zB6dH/edit", "/sk_live_short", "/tokens/abc/def/ghi/jkl", "/orders/sk_live_%20with-spaces", "/a%20b"])(
    "is not seen in %s",
    (text) => {
      expect(maskSecrets(text, 384)).toBe(text);
    },
  );

  it("leaves no piece at the end of a text that is cut", () => {
    for (let length = 0; length < 700; length += 7) {
      const text = `/${"k/".repeat(length)}${plain}/${plain.repeat(30)}`;
      expect(maskSecrets(text, 384)).not.toContain("sk_live_0");
    }
  });
});
