import { expect, it } from "vitest";
import { browse } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";

// Words of an address that a page looks up in a table: what every object of JavaScript inherits is in none.

const inherited = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];

it.each(inherited)("A page with the word %s in its address is the page without it", async (word) => {
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

it.each(inherited)("The activity search says that it cannot filter by %s", async (word) => {
  const { accountId } = await makeTenant();
  const { get } = browse(accountId);
  const searched = await get(`/activity?q=${word}:x`);
  expect([searched.status, searched.text.includes(`${word}:x`), searched.text.includes("[native code]")]).toEqual([200, true, false]);
  const filtered = await get(`/activity?${word}=needle`);
  expect([filtered.status, filtered.text.includes(`${word}:needle`)]).toEqual([200, false]);
});
