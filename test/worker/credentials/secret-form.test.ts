import { expect, it } from "vitest";
import { hasForm, holdsForm } from "../../../src/credentials/secret-form.ts";

const alphabets = ["hex", "base58", "base62", "base64", "base64url", "abcdefghij!#$&*+/:;=?@^"];
const random = (most: number) => Math.floor(Math.random() * most);
const randomText = (characters: string, length: number) => Array.from({ length }, () => characters[random(characters.length)]).join("");

it("Text that has a form is found at any place of a longer text, with any characters", () => {
  let found = 0;
  for (let turn = 0; turn < 20_000; turn++) {
    const prefix = ["", "sk_live_", "tok:", "LIC-", "pw!"][random(5)] ?? "";
    const minLength = prefix.length + 16 + random(60);
    const form = { prefix, minLength, maxLength: minLength + random(8), alphabet: alphabets[random(alphabets.length)] ?? "hex" };
    // Many separators, many other characters, or letters alone.
    const characters = ["_.|-abcdef0123", "_.|-", "abcdef", "+/=_-aZ9", "abcdefghij!#$&*+/:;=?@^"][random(5)] ?? "";
    const text = prefix + randomText(characters, minLength - prefix.length + random(8));
    if (!hasForm(text, form)) continue;
    found++;
    const around = [randomText("xyz .:+/", random(20)), randomText("xyz .:+/", random(20))];
    expect([form, text, holdsForm(text, form), holdsForm(around.join(text), form)]).toEqual([form, text, true, true]);
  }
  expect(found).toBeGreaterThan(1000);
});
