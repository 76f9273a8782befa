import { exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { newKeyId } from "../../../src/credentials/key-format.ts";
import { dayMs, hourMs, hourStart, minuteMs } from "../../../src/lib/time/clock.ts";
import { type Browser, browse, openRequestPage, requestIdOf, textOf } from "../support/browse.ts";
import { call, makeTenant, origin } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";
import { makePerson } from "../support/people.ts";

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
    expect(await countRows("status=nonsense&method=a%20b")).toBe(3);
    expect((await get("/activity?status=nonsense")).text).toContain("Not filtered by <code>status:nonsense</code>");
    expect((await get(`/activity?q=${encodeURIComponent("method:post status:5XX hello foo:bar")}`)).text).toContain(
      "Not filtered by <code>hello foo:bar</code>",
    );
    expect((await get("/activity.csv?status=nonsense")).status).toBe(400);
    const filtered = await get("/activity?status=4xx");
    expect(filtered.text).toContain("/activity.csv?status=4xx");
    // Excel reads a file without a byte-order mark as text of another encoding.
    for (const path of ["/activity.csv", "/usage.csv", "/settings/audit.csv"]) {
      const file = await exports.default.fetch(
        new Request(`${origin}${path}`, { headers: { "Sec-Fetch-Site": "none", Cookie: `account=${accountId}` } }),
      );
      expect([...new Uint8Array(await file.arrayBuffer())].slice(0, 3), path).toEqual([0xef, 0xbb, 0xbf]);
    }
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

  it("says how many requests are in the time of the filter only if its bars say it", async () => {
    const tenant = await makeTenant();
    const from = hourStart(Date.now() - 50 * hourMs);
    await write([0, 30, 40].map((minutes) => entryOf(tenant, from + minutes * minuteMs)));
    const { get } = browse(tenant.accountId);
    const sentenceOf = async (start: number, end: number) =>
      textOf(await get(`/activity?from=${new Date(start).toISOString()}&to=${new Date(end).toISOString()}`));
    expect(await sentenceOf(from, from + hourMs)).toContain("3 requests in the time of the filter. Chart: 3 requests, ");
    for (const [start, end] of [
      [from + 30 * minuteMs, from + hourMs],
      [from, from + 35 * minuteMs],
      [from - 20 * hourMs, from + 35 * minuteMs],
    ] as const)
      expect(await sentenceOf(start, end)).toMatch(/Chart: 3 requests, [^.]+\. The list below has only the time of the filter\./);
  });

  it("takes the times that the fields of a form send, without offset and without seconds that are zero, and those of the API", async () => {
    const { get } = browse((await makeTenant()).accountId);
    for (const time of ["2026-06-30T23:59", "2026-06-30T23:59:30", "2026-06-30T23:59:60Z", "2026-06-30T23:59:30.5%2B02:00"]) {
      const { status, text } = await get(`/activity?to=${time}`);
      expect([time, status, text.includes("Not filtered by")]).toEqual([time, 200, false]);
      expect((await get(`/activity.csv?to=${time}`)).status, time).toBe(200);
    }
    expect((await get("/activity?to=2026-06-30T25:00")).text).toContain("Not filtered by");
  });

  it("announces new requests on its first page only, and counts each of them", async () => {
    const tenant = await makeTenant();
    const now = Date.now();
    await write(Array.from({ length: 51 }, (_, n) => entryOf(tenant, now - minuteMs - n)));
    const { get } = browse(tenant.accountId);
    const page = await get("/activity");
    const [, news = ""] = /data-news="([^"]+)"/.exec(page.text) ?? [];
    expect((await get(news)).status).toBe(204);
    await write([entryOf(tenant, now - 2), entryOf(tenant, now - 1, { count: 39 })]);
    expect((await get(news)).body).toMatchObject({ text: "40 new requests" });
    const [, older = ""] = /href="([^"]+)">Older</.exec(page.text) ?? [];
    const olderPage = await get(older.replaceAll("&amp;", "&"));
    expect(olderPage.text).toContain("Newest");
    for (const { text } of [olderPage, await get(`/activity?to=${new Date(now).toISOString()}`)]) expect(text).not.toContain('data-news="');
  });

  it("keeps the position in the list and the seconds of a time while a request is open beside it", async () => {
    const { get } = browse((await makeTenant()).accountId);
    const { text } = await get("/activity?after=req_2&before=req_4.req_3&from=2026-01-31T09:30:05.000Z&to=2026-01-31T09:30:05.250Z");
    const [, list = ""] = /data-log="([^"]+)"/.exec(text) ?? [];
    expect(new URL(list.replaceAll("&amp;", "&"), "http://localhost").searchParams.get("before")).toBe("req_4.req_3");
    expect([...text.matchAll(/type="datetime-local" step="any" value="([^"]+)"/g)].map(([, value]) => value)).toEqual([
      "2026-01-31T09:30:05",
      "2026-01-31T09:30:05.250",
    ]);
  });

  it("has bars of the last 30 days if only a key or a status is chosen, because the list then goes back further than a day", async () => {
    const tenant = await makeTenant();
    const now = Date.now();
    await write([1, 10, 20].map((days) => entryOf(tenant, now - days * dayMs, { status: 404 })));
    await write([entryOf(tenant, now - 1000)]);
    const { get } = browse(tenant.accountId);
    expect(textOf(await get("/activity?status=404"))).toContain("3 requests in the last 30 days");
    expect(textOf(await get(`/activity?key_id=${tenant.keyId}`))).toContain("4 requests in the last 30 days");
    expect(textOf(await get("/activity"))).toContain("1 request in the last 24 hours");
    expect((await get("/activity?status=5xx")).text).not.toContain('aria-label="Requests over time"');
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
    const foreign = await browse((await makeTenant()).accountId).get(`/activity?open=${id}`);
    expect([foreign.status, textOf(foreign).includes("There is no such entry")]).toEqual([200, true]);
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

describe("The search", () => {
  it("offers a viewer only pages that a viewer may open, and finds members and passkeys", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId, "owner");
    const viewer = await makePerson(accountId, "viewer");
    const pathsFor = async ({ get }: Pick<Browser, "get">, q: string): Promise<string[]> =>
      (await get(`/search?${new URLSearchParams({ q })}`, { Accept: "application/json" })).body.results.map(
        ({ path }: { path: string }) => path,
      );
    for (const [q, path] of [
      ["create a key", "/keys/new"],
      ["add a webhook", "/webhooks/new"],
      ["invite", "/settings#members"],
    ] as const)
      expect([(await pathsFor(owner, q)).includes(path), (await pathsFor(viewer, q)).includes(path)], q).toEqual([true, false]);
    expect(await pathsFor(viewer, "passkey")).toContain("/settings#sign-in");
  });

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
    expect(await suggest("audit")).toContain("Page /settings/audit");
    expect(await suggest("limits")).toContain("Page /limits");
    expect((await suggest("webhook")).at(-1)).toBe("Search /search?q=webhook");
    expect(await suggest("")).toEqual([]);
    expect(await suggest("GET /api/v1/tasks")).toEqual(["Requests /activity?method=GET&path=%2Fapi%2Fv1%2Ftasks"]);
    expect((await get("/search?q=webhook")).text).toContain("Add a webhook");
    const { body } = await call("GET", "/docs/search?q=verify+signature+python", { Accept: "application/json" });
    expect(body.results).toEqual([
      { kind: "Guide", name: "Webhooks: Verify what arrives", path: "/docs/guides/webhooks#verify-what-arrives" },
    ]);
  });
});
