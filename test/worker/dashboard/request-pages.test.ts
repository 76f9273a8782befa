import { describe, expect, it, vi } from "vitest";
import { type Browser, browse, openRequestPage, requestIdOf, textOf } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";
import { makePerson } from "../support/people.ts";
import { deliveryWait, newPath, receiver } from "../support/receiver.ts";

describe("The page of a request", () => {
  it("explains a denied request: the reason, the solution, and the header with which the client was told", async () => {
    const { accountId, key } = await makeTenant({ hourlyLimit: 1, scopes: ["tasks:read"] });
    const browser = browse(accountId);
    const withoutScope = await call("GET", "/api/v1/users", { key });
    const scopePage = textOf(await openRequestPage(browser, requestIdOf(withoutScope)));
    expect(scopePage).toContain("Why this was refused");
    expect(scopePage).toContain("This operation needs the scope users:read.");
    expect(scopePage).toContain("WWW-Authenticate");
    expect(scopePage).toContain("The same in the console");
    const served = await call("GET", "/api/v1/tasks", { key });
    expect((await openRequestPage(browser, requestIdOf(served))).text).not.toContain("Why this");
    const overLimit = await call("GET", "/api/v1/tasks", { key });
    expect(textOf(await openRequestPage(browser, requestIdOf(overLimit)))).toMatch(
      /had used all its requests of the hour from \d\d:00 UTC to \d\d:00 UTC\. Its limit is 1 an hour/,
    );
  });

  it("shows the errors of single members and parameters as the client got them, without secrets", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const invalid = await call("POST", "/api/v1/tasks", { key, body: { title: "", priority: "x", [key]: 1 } });
    const page = textOf(await openRequestPage(browser, requestIdOf(invalid)));
    expect(page).toContain(invalid.body.detail);
    for (const { detail, pointer } of invalid.body.errors)
      if (!String(pointer).includes("dvo_")) expect(page).toContain(`${pointer} : ${detail}`);
    expect(page).not.toContain(key);
    const wrongQuery = await call("GET", "/api/v1/tasks?limit=9999", { key });
    expect(textOf(await openRequestPage(browser, requestIdOf(wrongQuery)))).toMatch(/limit : Must be a whole number from 1 to 100/);
  });

  it("shows a curl command that a shell does not interpret, for any path", async () => {
    const { accountId, key } = await makeTenant();
    const response = await call("GET", "/api/v1/tasks/$(touch$IFS$HOME)`id`'%22", { key });
    const { text } = await openRequestPage(browse(accountId), requestIdOf(response));
    const command = /<code[^>]*>(curl [^<]*)/.exec(text)?.[1]?.replaceAll("&#39;", "'").replaceAll("&quot;", '"');
    expect(command).toMatch(
      /^curl -g 'http:\/\/localhost\/api\/v1\/tasks\/\$\(touch\$IFS\$HOME\)(?:`|%60)id(?:`|%60)(?:'\\''|%27)%22' -H "Authorization/,
    );
  });

  it("traces the request on one axis of time: admission, response, event, delivery attempts, and changes of its key", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const browser = browse(accountId);
    await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath("fail"), event_types: ["task.created"] } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { name: "Courier" } });
    await call("POST", "/api/v1/keys", { key, body: { name: "Another key" } });
    const created = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const page = await vi.waitFor(async () => {
      const found = await openRequestPage(browser, requestIdOf(created));
      expect(textOf(found)).toContain("the receiver responded with 500");
      return found;
    }, deliveryWait);
    const [, trace = ""] = textOf(page).split(" Trace ");
    const steps = [
      "key.updated by",
      "Admitted",
      "Event task.created",
      "Response",
      "the receiver responded with 500",
      "Next delivery attempt",
    ];
    const places = steps.map((step) => trace.indexOf(step));
    expect([places.every((place) => place >= 0), places]).toEqual([true, places.toSorted((a, b) => a - b)]);
    // The creation of another key is not about this key.
    expect(trace.split("key.created").length - 1).toBe(1);
    expect(page.text).toContain(`href="/settings/audit?target=${keyId}"`);
    expect(page.text).toContain("Try again");
  });

  it("offers the fix at its end: the missing scope, or a higher limit", async () => {
    const { accountId, key, keyId } = await makeTenant({ hourlyLimit: 1, scopes: ["tasks:read"] });
    const browser = browse(accountId);
    const denied = await openRequestPage(browser, requestIdOf(await call("GET", "/api/v1/users", { key })));
    expect(denied.text).toContain(`href="/keys/${keyId}/settings?add=users%3Aread#change"`);
    expect(textOf(denied)).toContain("Add scope users:read");
    const form = await browser.get(`/keys/${keyId}/settings?add=users%3Aread`);
    expect(form.text).toMatch(/<input[^>]*value="users:read"[^>]*checked/);
    expect((await browser.get(`/keys/${keyId}`)).text).not.toMatch(/<input[^>]*value="users:read"[^>]*checked/);
    await call("GET", "/api/v1/tasks", { key });
    const overLimit = await openRequestPage(browser, requestIdOf(await call("GET", "/api/v1/tasks", { key })));
    expect(textOf(overLimit)).toContain("Raise the limit");
    // A denied request keeps the state of the limits.
    expect(textOf(overLimit)).toContain("Refused : 1 of 1 per hour used");
  });

  it("says that the fix was made, or who can make it", async () => {
    const { accountId, key, keyId } = await makeTenant({ hourlyLimit: 1, scopes: ["tasks:read"] });
    const [viewer, developer, owner] = [await makePerson(accountId, "viewer"), await makePerson(accountId, "developer"), browse(accountId)];
    const lacking = requestIdOf(await call("GET", "/api/v1/users", { key }));
    const withheld = requestIdOf(await call("GET", "/api/v1/audit", { key }));
    await call("GET", "/api/v1/tasks", { key });
    const overLimit = requestIdOf(await call("GET", "/api/v1/tasks", { key }));
    const shown = async (browser: Pick<Browser, "get">, id: string | null) => textOf(await openRequestPage(browser as Browser, id));
    expect(await shown(viewer, lacking)).toContain("An owner, an admin or a developer can add the scope users:read.");
    expect(await shown(viewer, overLimit)).toContain("An owner, an admin or a developer can raise the limit.");
    expect(await shown(developer, lacking)).toContain("Add scope users:read");
    expect(await shown(developer, withheld)).toContain("An owner or an admin can add the scope audit:read.");
    await owner.post(`/keys/${keyId}`, { scopes_shown: "yes", scopes: ["tasks:read", "users:read"], hourly_limit: "9" });
    expect(await shown(owner, lacking)).toContain("The key has the scope users:read now.");
    expect(await shown(owner, overLimit)).toContain("The limit of the key is 9 per hour now.");
  });

  it("shows every redelivery up to the last one, even if a delivery was repeated twice", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const url = receiver + newPath("fail");
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["task.created"] } });
    const created = requestIdOf(await call("POST", "/api/v1/tasks", { key, body: { title: "x" } }));
    const [first] = (await call("GET", `/api/v1/webhooks/${webhook.id}/deliveries`, { key })).body.data;
    const again = async (id: string) => (await call("POST", `/api/v1/deliveries/${id}/redeliver`, { key })).body.id;
    await again(first.id);
    const third = await again(first.id);
    const last = await again(await again(third));
    const page = await openRequestPage(browser, created);
    expect(textOf(page).split(" Redelivery ").length - 1).toBe(4);
    await vi.waitFor(async () => {
      const { text } = await openRequestPage(browser, created);
      // A slow machine may already show second attempts.
      const attempted = [...text.matchAll(/<a href="\/deliveries\/([^"]+)">Delivery attempt</g)].map(([, id]) => id);
      expect(new Set(attempted).size).toBe(5);
      expect([...text.matchAll(/action="(\/deliveries\/[^"]+)"/g)].map(([, action]) => action)).toEqual([`/deliveries/${last}/attempt`]);
    }, deliveryWait);
  });

  it("returns 404 for a request of another account", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const requestId = requestIdOf(await call("GET", "/api/v1/me", { key: foreign.key }));
    await openRequestPage(browse(foreign.accountId), requestId);
    expect((await browse(own.accountId).get(`/activity/${requestId}`)).status).toBe(404);
  });
});
