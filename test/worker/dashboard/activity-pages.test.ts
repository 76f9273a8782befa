import { describe, expect, it, vi } from "vitest";
import { newKeyId } from "../../../src/credentials/key-format.ts";
import { dayMs, hourMs, hourStart } from "../../../src/time/clock.ts";
import { type Browser, browse } from "../support/browse.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";
import { newPath, receiver } from "../support/receiver.ts";

/** Removes the HTML tags from a page. Returns the text that remains. */
const textOf = ({ text }: Pick<Answer, "text">) => text.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");

const requestIdOf = ({ headers }: Answer) => headers.get("X-Request-Id");

/** Waits until the page of a logged request exists, and returns the page. */
const openRequestPage = ({ get }: Browser, requestId: string | null) =>
  vi.waitFor(async () => {
    const page = await get(`/activity/${requestId}`);
    expect(page.status).toBe(200);
    return page;
  }, logDelay);

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

  it("links to the requests before and after it", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const [first, second, third] = [
      await call("GET", "/api/v1/me", { key }),
      await call("GET", "/api/v1/me", { key }),
      await call("GET", "/api/v1/me", { key }),
    ].map(requestIdOf);
    await openRequestPage(browser, third ?? "");
    const { text } = await openRequestPage(browser, second ?? "");
    expect(text).toMatch(new RegExp(`href="/activity/${third}"[^>]*>\\s*Newer`));
    expect(text).toMatch(new RegExp(`href="/activity/${first}"[^>]*>\\s*Older`));
  });

  it("finds the entry in which a denied request was counted together with others", async () => {
    const { accountId, key } = await makeTenant({ hourlyLimit: 1 });
    const browser = browse(accountId);
    await call("GET", "/api/v1/tasks", { key });
    const denied = await Promise.all(Array.from({ length: 12 }, () => call("GET", "/api/v1/tasks", { key })));
    const pages = await vi.waitUntil(
      async () => {
        const answers = await Promise.all(denied.map((each) => browser.get(`/activity/${requestIdOf(each)}`)));
        const missing = answers.filter(({ status }) => status === 404);
        return missing.length > 0 && missing.every(({ text }) => text.includes("429 ×")) && missing;
      },
      { timeout: 15_000, interval: 500 },
    );
    expect(pages.length).toBeGreaterThan(0);
  });

  it("links to the deliveries that the request caused", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["task.created"] } });
    const created = await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    const page = await openRequestPage(browser, requestIdOf(created));
    expect(textOf(page)).toMatch(/Event task\.created its delivery/);
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
      expect(textOf(found)).toContain("the receiver answered 500");
      return found;
    }, logDelay);
    const [, trace = ""] = textOf(page).split(" Trace ");
    const steps = ["key.updated by", "Admitted", "Event task.created", "Response", "the receiver answered 500", "Next delivery attempt"];
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

  it("returns 404 for a request of another account", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const requestId = requestIdOf(await call("GET", "/api/v1/me", { key: foreign.key }));
    await openRequestPage(browse(foreign.accountId), requestId);
    expect((await browse(own.accountId).get(`/activity/${requestId}`)).status).toBe(404);
  });
});

describe("The activity page", () => {
  it("accepts the filters of the API as parameters and as text, and keeps them in its links", async () => {
    const { accountId, key, keyId } = await makeTenant();
    await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks/tsk_1", { key });
    await call("POST", "/api/v1/tasks", { key, body: {} });
    const { get } = browse(accountId);
    const countRows = async (query = "") => (await get(`/activity?${query}`)).text.split('class="row"').length - 1;
    await vi.waitFor(async () => expect(await countRows()).toBe(3), logDelay);
    expect([
      await countRows("status=4xx"),
      await countRows("status=404"),
      await countRows("method=POST"),
      await countRows("path=/api/v1/tasks"),
      await countRows(`key_id=${keyId}`),
    ]).toEqual([2, 1, 1, 2, 3]);
    expect(await countRows(`q=${encodeURIComponent("method:POST status:4xx")}`)).toBe(1);
    expect(await countRows("status=nonsense&method=TRACE")).toBe(3);
    expect((await get("/activity?status=nonsense")).text).toContain("Not filtered by <code>status:nonsense</code>");
    expect((await get(`/activity?q=${encodeURIComponent("method:post status:5XX hello foo:bar")}`)).text).toContain(
      "Not filtered by <code>hello foo:bar</code>",
    );
    expect((await get("/activity.csv?status=nonsense")).status).toBe(400);
    const filtered = await get("/activity?status=4xx");
    expect(filtered.text).toContain("/activity.csv?status=4xx");
    expect((await get("/activity.csv")).headers.get("Content-Disposition")).toBe('attachment; filename="activity.csv"');
    const csv = (await get("/activity.csv?status=4xx")).text.trim().split("\r\n");
    expect(csv).toHaveLength(3);
    expect((await get("/activity?status=5xx")).text).toContain("Clear the filter");
  });

  it("has a field and chips for the time, and a chip for each filter that removes it", async () => {
    const { accountId } = await makeTenant();
    const { get } = browse(accountId);
    const { text } = await get("/activity?method=GET&status=4xx&from=2026-01-31T09:30:00.000Z");
    expect(text).toMatch(/<input[^>]*name="from"[^>]*type="datetime-local"[^>]*value="2026-01-31T09:30"/);
    expect(text).toContain('aria-label="Remove the filter From: 31 Jan 2026, 09:30:00 UTC"');
    expect(text).toMatch(/href="\/activity\?method=GET&amp;from=2026-01-31T09%3A30%3A00.000Z" aria-label="Remove the filter Status: 4xx"/);
    for (const range of ["Last hour", "Today", "Yesterday", "7 days"])
      expect(text).toMatch(new RegExp(`method=GET[^"]*from=[^"]*"[^>]*>${range}<`));
    expect((await get("/activity")).text).not.toContain("Remove the filter");
  });

  it("has bars that add up to the requests of its span, and a link to each hour", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    await write([0, 1, 1, 5].map((hours) => entryOf({ accountId, keyId }, now - hours * hourMs - 1)));
    const { get } = browse(accountId);
    const page = await vi.waitFor(async () => {
      const found = await get("/activity");
      const counts = [...found.text.matchAll(/<title>\d+ \w+ \d\d:00: (\d+) requests/g)].map(([, count]) => Number(count));
      expect([counts.length, counts.reduce((sum, count) => sum + count, 0)]).toEqual([24, 4]);
      return found;
    }, logDelay);
    const links = [...page.text.matchAll(/<a href="(\/activity\?from=[^"]+)">\d+ \w+ \d\d:00</g)].map(([, link = ""]) => link);
    expect(links).toHaveLength(24);
    const hours = await Promise.all(links.map((link) => get(link.replaceAll("&amp;", "&"))));
    expect(hours.reduce((sum, { text }) => sum + text.split('class="row"').length - 1, 0)).toBe(4);
  });

  it("shows one request beside the list, under an address of its own", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    const id = requestIdOf(await call("GET", "/api/v1/tasks/none", { key }));
    await openRequestPage(browser, id);
    const { text, status } = await browser.get(`/activity?status=4xx&open=${id}`);
    expect(status).toBe(200);
    expect(text).toContain('class="row chosen"');
    const [, beside = ""] = text.split('<aside id="side"');
    expect(beside).toContain("Why this was refused");
    expect(beside).toContain('href="/activity?status=4xx"');
    const closed = (await browser.get("/activity?status=4xx")).text;
    expect(closed).toMatch(/<aside id="side"[^>]*hidden/);
    expect((await browse((await makeTenant()).accountId).get(`/activity?open=${id}`)).status).toBe(404);
  });

  it("shows requests of more keys than one D1 statement can bind, like the API and the CSV export", async () => {
    const { accountId, keyId, key } = await makeTenant();
    const now = Date.now();
    const keyIds = Array.from({ length: 1100 }, () => newKeyId());
    await write(keyIds.map((each, n) => entryOf({ accountId, keyId: each }, now - 1000 - n)));
    await write([entryOf({ accountId, keyId }, now - 500)]);
    const { get } = browse(accountId);
    const { body } = await call("GET", "/api/v1/activity?limit=100", { key });
    expect(body.data.map((each: { key_id: string }) => each.key_id)).toEqual([keyId, ...keyIds.slice(0, 99)]);
    expect((await get("/activity")).status).toBe(200);
    const rows = (await get("/activity.csv")).text.trim().split("\r\n");
    expect([rows.length >= 1102, rows.some((row) => row.includes(`,${keyId},Test key,`))]).toEqual([true, true]);
  });

  it("names the file of a CSV export that has only the newest 10,000 requests", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    await write(Array.from({ length: 11_001 }, (_, n) => entryOf({ accountId, keyId }, now - 1000 - n)));
    const { text, headers } = await browse(accountId).get("/activity.csv");
    expect(text.trim().split("\r\n")).toHaveLength(10_001);
    expect(headers.get("Content-Disposition")).toBe('attachment; filename="activity-newest-10000.csv"');
  });
});

describe("The usage page", () => {
  it.each(["24h", "7d", "30d"])("shows the sums of its CSV export for the last %s", async (window) => {
    const { accountId, key } = await makeTenant();
    for (let count = 0; count < 3; count++) await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks/tsk_1", { key });
    const { get } = browse(accountId);
    const page = await vi.waitFor(async () => {
      const text = textOf(await get(`/usage?window=${window}`));
      expect(text).toContain("Total Requests 4");
      return text;
    }, logDelay);
    expect(page).toContain("Success Rate 75.00%");
    const [head, ...rows] = (await get(`/usage.csv?window=${window}`)).text.trim().split("\r\n");
    expect(head).toBe("start,requests,successes,not_reported,avg_response_time_ms,p50_ms,p95_ms,p99_ms");
    const sum = (column: number) => rows.reduce((total, row) => total + Number(row.split(",")[column]), 0);
    expect([sum(1), sum(2)]).toEqual([4, 3]);
  });

  it("shows the figures, breakdowns and requests of a selected span, and what differs from a week before", async () => {
    const { accountId, keyId } = await makeTenant({ hourlyLimit: 200 });
    const { keyId: otherId } = await makeKey(accountId, { name: "Other" });
    const from = hourStart(Date.now() - 50 * hourMs);
    const [noon, weekBefore] = [from + hourMs / 2, from + hourMs / 2 - 7 * dayMs];
    const of = (id: string, count: number, time: number, more = {}) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId: id }, time + n, more));
    const denied = { status: 429, admitted: false, counted: false, errorCode: "rate_limit_exceeded" };
    await write([
      ...of(keyId, 40, noon),
      ...of(keyId, 30, noon + 1000, denied),
      ...of(otherId, 20, noon),
      ...of(keyId, 40, weekBefore),
      ...of(otherId, 20, weekBefore),
      // Outside of the span.
      ...of(otherId, 9, from - hourMs),
    ]);
    const { get } = browse(accountId);
    const span = new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(from + hourMs).toISOString() });
    const page = await get(`/usage?${span}`);
    const text = textOf(page);
    expect(text).toContain("Total Requests 90 +50.0% against 60");
    expect(text).toMatch(/ \d\d:00 to \d\d:00: Test key , 30 requests denied, limit 200, against 0 a week before\./);
    expect(page.text).toContain(`href="/activity?status=429&amp;key_id=${keyId}&amp;from=`);
    expect(text).toMatch(/By key .* Test key 70 77\.78% .* Other 20 22\.22%/);
    const [, ...rows] = (await get(`/usage.csv?${span}`)).text.trim().split("\r\n");
    expect(rows.map((row) => row.split(",").slice(1, 3))).toEqual([["90", "60"]]);
    expect(textOf(await get(`/usage?${span}&key_id=${otherId}`))).toContain("nothing differs notably from a week before");
    // A span that is not one of the past is ignored.
    expect(textOf(await get("/usage?from=2999-01-01T00:00:00Z&to=2999-01-02T00:00:00Z"))).toContain("Last 30 days");
  });

  it("sorts its breakdowns by the column that the reader chooses", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    const of = (route: string, count: number, more = {}) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, now - hourMs - n, { route, path: route, ...more }));
    await write([...of("/often", 5), ...of("/failing", 3, { status: 500 }), ...of("/slow", 2, { durationMs: 900 })]);
    const routesBy = async (query: string) =>
      [...(await browse(accountId).get(`/usage${query}`)).text.matchAll(/<code>(\/\w+)<\/code>/g)].map(([, route]) => route).slice(0, 3);
    expect(await routesBy("")).toEqual(["/often", "/failing", "/slow"]);
    expect((await routesBy("?sort=success"))[0]).toBe("/failing");
    expect((await routesBy("?sort=average"))[0]).toBe("/slow");
  });
});

describe("The search", () => {
  it("finds keys, webhooks, ids, pages and parts of the documentation, as a page and as suggestions", async () => {
    const { accountId, key, keyId } = await makeTenant();
    await call("POST", "/api/v1/webhooks", { key, body: { url: "https://hooks.search.dev/orders", event_types: ["key.created"] } });
    const { get } = browse(accountId);
    const suggest = async (q: string) => {
      const { body } = await get(`/search?${new URLSearchParams({ q })}`, { Accept: "application/json" });
      return body.results.map(({ kind, path }: { kind: string; path: string }) => `${kind} ${path.replace(/whk_\w+/, "whk")}`);
    };
    expect(await suggest("test ke")).toContain(`API key /keys/${keyId}`);
    expect(await suggest("search.dev")).toEqual(["Webhook /webhooks/whk"]);
    expect(await suggest(`req_${"0".repeat(32)}`)).toEqual([`Request /activity/req_${"0".repeat(32)}`]);
    expect(await suggest("verify signature python")).toEqual(["Guide /docs/guides/webhooks#verify-what-arrives"]);
    expect(await suggest("settings")).toContain("Page /settings");
    expect(await suggest("")).toEqual([]);
    expect(await suggest("GET /api/v1/tasks")).toEqual(["Requests /activity?method=GET&path=%2Fapi%2Fv1%2Ftasks"]);
    expect((await get("/search?q=webhook")).text).toContain("Add a webhook");
    const { body } = await call("GET", "/docs/search?q=verify+signature+python", { Accept: "application/json" });
    expect(body.results).toEqual([
      { kind: "Guide", name: "Webhooks: Verify what arrives", path: "/docs/guides/webhooks#verify-what-arrives" },
    ]);
  });
});
