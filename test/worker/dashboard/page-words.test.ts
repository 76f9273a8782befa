import { expect, it } from "vitest";
import { browse } from "../support/browse.ts";
import { makeTenant } from "../support/client.ts";

// Pages take some words from their URL and look up these words in objects. A lookup must not find the properties that every JavaScript
// object inherits.

it.each(["__proto__", "constructor", "toString", "valueOf"])("A page ignores the property name %s in its address", async (word) => {
  const { accountId, keyId } = await makeTenant();
  const { get } = browse(accountId);
  const { status, text } = await get(`/keys/${keyId}?done=${word}`);
  expect([status, /class="note done"/.test(text)]).toEqual([200, false]);
  const form = (await get(`/keys/new?preset=${word}`)).text;
  expect(form.match(/checked/g)).toEqual((await get("/keys/new")).text.match(/checked/g));
  const search = await get(`/activity?q=${word}:x`);
  expect([search.status, search.text.includes(`${word}:x`), search.text.includes("[native code]")]).toEqual([200, true, false]);
  const parameter = await get(`/activity?${word}=needle`);
  expect([parameter.status, parameter.text.includes(`${word}:needle`)]).toEqual([200, false]);
});
