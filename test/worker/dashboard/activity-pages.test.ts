import { exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { newKeyId } from "../../../src/credentials/key-format.ts";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { browse } from "../support/browse.ts";
import { call, makeTenant, origin } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";

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
    expect(filtered.text).toContain('<option value="status:4xx method:POST">');
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
