import { describe, expect, it, vi } from "vitest";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { type Browser, browse, openRequestPage, requestIdOf, textOf } from "../support/browse.ts";
import { type Answer, call, makeTenant } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";
import { makePerson } from "../support/people.ts";
import { deliveryWait, newPath, receiver, waitForAttempts } from "../support/receiver.ts";

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

  it("shows the state of the limit at an admitted request", async () => {
    const { accountId, key } = await makeTenant({ hourlyLimit: 9 });
    await call("GET", "/api/v1/tasks", { key });
    const second = await call("GET", "/api/v1/tasks", { key });
    expect(textOf(await openRequestPage(browse(accountId), requestIdOf(second)))).toContain("Admitted : 2 of 9 per hour used");
  });

  it("offers to raise the limit, on the page that has the field", async () => {
    const { accountId, key } = await makeTenant({ hourlyLimit: 1 });
    const browser = browse(accountId);
    await call("GET", "/api/v1/tasks", { key });
    const { text } = await openRequestPage(browser, requestIdOf(await call("GET", "/api/v1/tasks", { key })));
    const [, path = "", field = ""] = /href="([^"#]+)#([^"]+)">\s*Raise the limit/.exec(text) ?? [];
    expect((await browser.get(path)).text).toContain(`id="${field}"`);
  });

  it("links to the deliveries that the request caused", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["task.created"] } });
    const created = await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    const page = await openRequestPage(browser, requestIdOf(created));
    expect(textOf(page)).toMatch(/Event task\.created · View delivery/);
    expect(textOf(page)).toMatch(/Event task\.completed for no webhook/);
    const path = /href="(\/deliveries\/dlv_[0-9a-f]+)"/.exec(page.text)?.[1] ?? "";
    expect(textOf(await browser.get(path))).toContain("Delivery of task.created");
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
    expect(textOf(overLimit)).toContain("Denied : 1 of 1 per hour used");
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

  it("follows an event to its latest redelivery, and does not name a URL that was set later", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const [failing, healthy] = [receiver + newPath("fail"), receiver + newPath()];
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body: { url: failing, event_types: ["task.created"] } });
    const created = requestIdOf(await call("POST", "/api/v1/tasks", { key, body: { title: "x" } }));
    const traceWith = (text: string) =>
      vi.waitFor(async () => {
        const [, trace = ""] = textOf(await openRequestPage(browser, created)).split(" Trace ");
        expect(trace).toContain(text);
        return trace;
      }, deliveryWait);
    expect(await traceWith("the receiver responded with 500")).toContain(`Delivery attempt to ${failing}`);
    await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { url: healthy } });
    const [delivery] = (await call("GET", `/api/v1/webhooks/${webhook.id}/deliveries`, { key })).body.data;
    await call("POST", `/api/v1/deliveries/${delivery.id}/redeliver`, { key });
    const trace = await traceWith("the receiver responded with 204");
    expect(trace).toContain("Redelivery");
    expect(trace).not.toContain(failing);
    expect(trace).not.toContain("Try again");
    expect(trace.indexOf("Redelivery")).toBeLessThan(trace.indexOf(`Delivery attempt to ${healthy}`));
  });

  it("shows every redelivery up to the last one, also if a delivery was repeated twice", async () => {
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
      expect(text.split("the receiver responded with 500").length - 1).toBe(5);
      expect([...text.matchAll(/action="(\/deliveries\/[^"]+)"/g)].map(([, action]) => action)).toEqual([`/deliveries/${last}/attempt`]);
    }, deliveryWait);
  });

  it("says what it leaves out: events and changes of the key, but no type of event and none of the nearest changes", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const browser = browse(accountId);
    const url = receiver + newPath("fail");
    await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["task.updated", "user.deleted"] } });
    const { body: user } = await call("POST", "/api/v1/users", { key, body: { name: "Vera", email: "vera@example.com" } });
    for (let task = 0; task < 60; task++) await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.id } });
    const deleted = await call("DELETE", `/api/v1/users/${user.id}`, { key });
    expect(deleted.status).toBe(204);
    for (let change = 0; change < 14; change++) await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { name: `Name ${change}` } });
    const page = textOf(await openRequestPage(browser, requestIdOf(deleted)));
    expect(page).toContain("Event user.deleted");
    expect(page).toMatch(/Not shown: 11 other events, \d+ more changes? of the key within ten minutes\./);
    expect(page.split(/key\.\w+ by/).length - 1).toBe(10);
    const second = textOf(
      await vi.waitFor(async () => {
        const found = await openRequestPage(browser, requestIdOf(deleted));
        expect(textOf(found)).toContain("more deliveries can be sent again");
        return found;
      }, deliveryWait),
    );
    const names = [...second.matchAll(/task\.updated of (tsk_\w+) to/g)].map(([, id]) => id);
    expect(new Set(names).size).toBe(names.length);
  });

  it("shows a test event with its delivery", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const body = { url: receiver + newPath("fail"), event_types: ["task.created"] };
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body });
    const sent = await call("POST", `/api/v1/webhooks/${webhook.id}/test`, { key, body: {} });
    await vi.waitFor(async () => {
      const page = textOf(await openRequestPage(browser, requestIdOf(sent)));
      expect(page).toContain("Event webhook.test");
      expect(page).toContain("the receiver responded with 500");
    }, deliveryWait);
  });

  it("names the webhook of each fix if there are several, and has no fix for a webhook that was deleted", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const urls = [newPath("fail"), newPath("fail"), newPath("fail")].map((path) => receiver + path);
    const made = [];
    for (const url of urls) made.push((await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["task.created"] } })).body);
    const created = requestIdOf(await call("POST", "/api/v1/tasks", { key, body: { title: "x" } }));
    await vi.waitFor(async () => {
      const { text } = await openRequestPage(browser, created);
      for (const url of urls) expect(text).toMatch(new RegExp(`aria-label="Try again, task.created of tsk_\\w+ to ${url}"`));
    }, deliveryWait);
    await call("DELETE", `/api/v1/webhooks/${made[0].id}`, { key });
    const page = await openRequestPage(browser, created);
    expect(page.text.split(">Try again").length - 1).toBe(2);
    expect(textOf(page)).toContain("Delivery attempt to a webhook that was deleted");
  });

  it("offers to raise the limit that was exceeded, unless it is the highest limit of a key", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const browser = browse(accountId);
    await browser.post(`/keys/${keyId}`, { hourly_limit: "5000", limit_minute: "1" });
    const deniedBy = (await Promise.all([1, 2, 3].map(() => call("GET", "/api/v1/tasks", { key })))).find(({ status }) => status === 429);
    const { text } = await openRequestPage(browser, requestIdOf(deniedBy as Answer));
    const [, path = "", field = ""] = /href="([^"#]+)#([^"]+)">\s*Raise the limit/.exec(text) ?? [];
    expect(field).toBe("field-limit_minute");
    expect((await browser.get(path)).text).toContain(`id="${field}"`);
    const atCeiling = entryOf({ accountId, keyId }, Date.now() - hourMs, {
      ...{ status: 429, admitted: false, counted: false, errorCode: "rate_limit_exceeded", violated: ["hour"] },
      limits: [{ name: "hour", limit: 5000, used: 5000 }],
    });
    await write([atCeiling]);
    const other = textOf(await openRequestPage(browser, atCeiling.id));
    expect(other).toContain("5,000 per hour is the highest limit of a key. Only the team behind this service can raise it.");
    expect(other).not.toContain("Raise the limit");
  });

  it("says that a delivery is held, and offers to enable its webhook", async () => {
    const { accountId, key } = await makeTenant();
    const { body: webhook } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: receiver + newPath(), event_types: ["task.created"] },
    });
    await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "disabled" } });
    const created = requestIdOf(await call("POST", "/api/v1/tasks", { key, body: { title: "x" } }));
    const page = await openRequestPage(browse(accountId), created);
    expect(textOf(page)).toMatch(/ Held , because http\S+ is disabled/);
    await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "active" } });
    expect(textOf(await openRequestPage(browse(accountId), created))).toMatch(/ Held , because http\S+ was disabled/);
    expect(page.text).toMatch(new RegExp(`href="/webhooks/${webhook.id}">\\s*Enable the webhook`));
  });

  it("shows when a delivery was held, also after its webhook was changed and enabled again", async () => {
    const { accountId, key } = await makeTenant();
    const { body: webhook } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: receiver + newPath("fail"), event_types: ["task.created"] },
    });
    const change = (body: object) => call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body });
    const created = requestIdOf(await call("POST", "/api/v1/tasks", { key, body: { title: "x" } }));
    const [{ id }] = (await call("GET", `/api/v1/webhooks/${webhook.id}/deliveries`, { key })).body.data;
    await waitForAttempts({ key }, id, 1);
    // The delivery waits for its second attempt. The pause tells the time of the holding from that of the first attempt.
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await change({ status: "disabled" });
    const browser = browse(accountId);
    const heldIn = async () => /([+−][\d.,]+ \w+) \W*Held ,/.exec(textOf(await openRequestPage(browser, created)))?.[1];
    const held = await heldIn();
    expect(held).toMatch(/^\+[1-9][\d.]* s$/);
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await change({ description: "Another" });
    expect(await heldIn()).toBe(held);
    await change({ status: "active" });
    expect(await heldIn()).toBe(held);
  });

  it("returns 404 for a request of another account", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const requestId = requestIdOf(await call("GET", "/api/v1/me", { key: foreign.key }));
    await openRequestPage(browse(foreign.accountId), requestId);
    expect((await browse(own.accountId).get(`/activity/${requestId}`)).status).toBe(404);
  });
});
