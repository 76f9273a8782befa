import { describe, expect, it, vi } from "vitest";
import { newKeyId } from "../../../src/credentials/key-format.ts";
import { type Browser, browse } from "../support/browse.ts";
import { type Answer, call, makeTenant } from "../support/client.ts";
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
    expect(scopePage).toContain("The key does not have the scope that this operation needs.");
    expect(scopePage).toContain("WWW-Authenticate");
    expect(scopePage).toMatch(/The operation needs the scope users:read/);
    expect(scopePage).toContain("The same in the console");
    const served = await call("GET", "/api/v1/tasks", { key });
    expect((await openRequestPage(browser, requestIdOf(served))).text).not.toContain("Why this");
    const overLimit = await call("GET", "/api/v1/tasks", { key });
    expect(textOf(await openRequestPage(browser, requestIdOf(overLimit)))).toMatch(
      /had used all its requests of the hour from \d\d:00 UTC to \d\d:00 UTC\. Its limit is 1 an hour/,
    );
  });

  it("links to the deliveries that the request caused", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["task.created"] } });
    const created = await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    const page = await openRequestPage(browser, requestIdOf(created));
    expect(textOf(page)).toMatch(/Events caused by this request task\.created its delivery task\.completed no webhook/);
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

  it("shows changes from around the time of the request, and links to that time in the audit log", async () => {
    const { accountId, key } = await makeTenant();
    const browser = browse(accountId);
    expect((await call("POST", "/api/v1/keys", { key, body: { name: "Courier" } })).status).toBe(201);
    const response = await call("GET", "/api/v1/me", { key });
    const page = await openRequestPage(browser, requestIdOf(response));
    expect(textOf(page)).toMatch(/Changes around this request .* key\.created Courier by .*, \d seconds? before/);
    const path = /href="(\/settings\/audit\?from=[^"]+)"/.exec(page.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    expect(textOf(await browser.get(path))).toContain("Courier");
    const longAgo = "/settings/audit?from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z";
    expect(textOf(await browser.get(longAgo))).toContain("Nothing matches.");
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
});
