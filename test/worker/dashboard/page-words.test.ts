import { expect, it } from "vitest";
import { browse } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";

// Pages take some words from their URL and look up these words in objects. A lookup must not find the properties that every JavaScript
// object inherits.

const inheritedProperties = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];

it.each(inheritedProperties)("A page ignores the property name %s in its address", async (word) => {
  const { accountId, key, keyId } = await makeTenant();
  const { body } = await call("POST", "/api/v1/webhooks", { key, body: { url: "https://hooks.acme.dev/x", event_types: ["*"] } });
  const { get } = browse(accountId);
  for (const path of [`/keys/${keyId}`, `/webhooks/${body.id}`, "/settings"]) {
    const { status, text } = await get(`${path}?done=${word}`);
    expect([status, /class="note done"/.test(text)], path).toEqual([200, false]);
  }
  const form = (await get(`/keys/new?preset=${word}`)).text;
  expect(form.match(/checked/g)).toEqual((await get("/keys/new")).text.match(/checked/g));
});

it.each(inheritedProperties)("The activity search cannot filter by %s, and shows the unused filter", async (word) => {
  const { accountId } = await makeTenant();
  const { get } = browse(accountId);
  const search = await get(`/activity?q=${word}:x`);
  expect([search.status, search.text.includes(`${word}:x`), search.text.includes("[native code]")]).toEqual([200, true, false]);
  const parameter = await get(`/activity?${word}=needle`);
  expect([parameter.status, parameter.text.includes(`${word}:needle`)]).toEqual([200, false]);
});
