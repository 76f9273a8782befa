import { describe, expect, it } from "vitest";
import { newKeyId } from "../../../src/credentials/key-format.ts";
import { browse } from "../support/browse.ts";
import { call, makeTenant, within2s } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";
import { newPath, receiver } from "../support/receiver.ts";

const plain = (html: string) => html.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");

describe("One request", () => {
  it("says why it was refused, what to do, and which header told the client", async () => {
    const { accountId, key } = await makeTenant({ hourlyLimit: 1, scopes: ["tasks:read"] });
    const { get } = browse(accountId);
    const seen = async (id: string | null) =>
      within2s(
        () => get(`/activity/${id}`),
        ({ status }) => status === 200,
      );
    const refused = await call("GET", "/api/v1/users", { key });
    const scope = plain((await seen(refused.headers.get("X-Request-Id"))).text);
    expect(scope).toContain("Why this was refused");
    expect(scope).toContain("The key does not have the scope that this operation needs.");
    expect(scope).toContain("WWW-Authenticate");
    expect(scope).toMatch(/It needs users:read/);
    expect(scope).toContain("The same in the console");
    const served = await call("GET", "/api/v1/tasks", { key });
    expect((await seen(served.headers.get("X-Request-Id"))).text).not.toContain("Why this");
    const limited = await call("GET", "/api/v1/tasks", { key });
    expect(plain((await seen(limited.headers.get("X-Request-Id"))).text)).toMatch(
      /had used all its requests of the hour from \d\d:00 UTC to \d\d:00 UTC; its limit is 1 an hour/,
    );
  });

  it("leads to the deliveries that it caused", async () => {
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["task.created"] } });
    const made = await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    const { text } = await within2s(
      () => browse(accountId).get(`/activity/${made.headers.get("X-Request-Id")}`),
      ({ status }) => status === 200,
    );
    expect(plain(text)).toMatch(/What it caused task\.created its delivery task\.completed for no webhook/);
    const path = /href="(\/deliveries\/dlv_[0-9a-f]+)"/.exec(text)?.[1] ?? "";
    expect(plain((await browse(accountId).get(path)).text)).toContain("Delivery of task.created");
  });

  it("is repeated by a command that a shell takes as it is, for any path", async () => {
    const { accountId, key } = await makeTenant();
    const { headers } = await call("GET", "/api/v1/tasks/$(touch$IFS$HOME)`id`'%22", { key });
    const { text } = await within2s(
      () => browse(accountId).get(`/activity/${headers.get("X-Request-Id")}`),
      ({ status }) => status === 200,
    );
    const command = /<code[^>]*>(curl [^<]*)/.exec(text)?.[1]?.replaceAll("&#39;", "'").replaceAll("&quot;", '"');
    expect(command).toMatch(
      /^curl -g 'http:\/\/localhost\/api\/v1\/tasks\/\$\(touch\$IFS\$HOME\)(?:`|%60)id(?:`|%60)(?:'\\''|%27)%22' -H "Authorization/,
    );
  });

  it("shows what was changed around it, and leads to that time of the audit log", async () => {
    const { accountId, key } = await makeTenant();
    const made = await call("POST", "/api/v1/keys", { key, body: { name: "Courier" } });
    expect(made.status).toBe(201);
    const { headers } = await call("GET", "/api/v1/me", { key });
    const { text } = await within2s(
      () => browse(accountId).get(`/activity/${headers.get("X-Request-Id")}`),
      ({ status }) => status === 200,
    );
    expect(plain(text)).toMatch(/Changes around it .* key\.created Courier by .*, \d seconds? before/);
    const path = /href="(\/settings\/audit\?from=[^"]+)"/.exec(text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    expect(plain((await browse(accountId).get(path)).text)).toContain("Courier");
    const longAgo = "/settings/audit?from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z";
    expect(plain((await browse(accountId).get(longAgo)).text)).toContain("Nothing matches.");
  });

  it("of another account is not there", async () => {
    const [mine, theirs] = [await makeTenant(), await makeTenant()];
    const { headers } = await call("GET", "/api/v1/me", { key: theirs.key });
    const path = `/activity/${headers.get("X-Request-Id")}`;
    await within2s(
      () => browse(theirs.accountId).get(path),
      ({ status }) => status === 200,
    );
    expect((await browse(mine.accountId).get(path)).status).toBe(404);
  });
});

describe("The list of requests", () => {
  it("takes the filters of the API, and the same as text, and carries them along", async () => {
    const { accountId, key, keyId } = await makeTenant();
    await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks/tsk_1", { key });
    await call("POST", "/api/v1/tasks", { key, body: {} });
    const { get } = browse(accountId);
    await within2s(
      () => get("/activity"),
      ({ text }) => text.split('class="row"').length === 4,
    );
    const rows = async (query: string) => (await get(`/activity?${query}`)).text.split('class="row"').length - 1;
    expect([
      await rows("status=4xx"),
      await rows("status=404"),
      await rows("method=POST"),
      await rows("path=/api/v1/tasks"),
      await rows(`key_id=${keyId}`),
    ]).toEqual([2, 1, 1, 2, 3]);
    expect(await rows(`q=${encodeURIComponent("method:POST status:4xx")}`)).toBe(1);
    expect(await rows("status=nonsense&method=TRACE")).toBe(3);
    expect((await get("/activity?status=nonsense")).text).toContain("Not filtered by <code>status:nonsense</code>");
    expect((await get(`/activity?q=${encodeURIComponent("method:post status:5XX hello foo:bar")}`)).text).toContain(
      "Not filtered by <code>hello foo:bar</code>",
    );
    expect((await get("/activity.csv?status=nonsense")).status).toBe(400);
    const filtered = await get("/activity?status=4xx");
    expect(filtered.text).toContain("/activity.csv?status=4xx");
    const csv = (await get("/activity.csv?status=4xx")).text.trim().split("\r\n");
    expect(csv).toHaveLength(3);
    expect((await get("/activity?status=5xx")).text).toContain("Clear the filter");
  });
});

describe("Requests of more different keys than a statement of D1 binds", () => {
  it("are shown by page, by API and as CSV, with the names of the keys", async () => {
    const { accountId, keyId, key } = await makeTenant();
    const now = Date.now();
    const keys = Array.from({ length: 1100 }, () => newKeyId());
    await write(keys.map((each, n) => entryOf({ accountId, keyId: each }, now - 1000 - n)));
    await write([entryOf({ accountId, keyId }, now - 500)]);
    const { get } = browse(accountId);
    expect((await call("GET", "/api/v1/activity?limit=100", { key })).body.data.map((each: { key_id: string }) => each.key_id)).toEqual([
      keyId,
      ...keys.slice(0, 99),
    ]);
    expect((await get("/activity")).status).toBe(200);
    const rows = (await get("/activity.csv")).text.trim().split("\r\n");
    expect([rows.length >= 1102, rows.some((row) => row.includes(`,${keyId},Test key,`))]).toEqual([true, true]);
  });
});

describe("The figures of a page", () => {
  it.each(["24h", "7d", "30d"])("equal the sums of its CSV, over %s", async (window) => {
    const { accountId, key } = await makeTenant();
    for (let count = 0; count < 3; count++) await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks/tsk_1", { key });
    const { get } = browse(accountId);
    const { text } = await within2s(
      () => get(`/usage?window=${window}`),
      ({ text }) => plain(text).includes("Total Requests 4"),
    );
    expect(plain(text)).toContain("Success Rate 75.00%");
    const [head, ...rows] = (await get(`/usage.csv?window=${window}`)).text.trim().split("\r\n");
    expect(head).toBe("start,requests,successes,avg_response_time_ms,p50_ms,p95_ms,p99_ms");
    const sum = (column: number) => rows.reduce((total, row) => total + Number(row.split(",")[column]), 0);
    expect([sum(1), sum(2)]).toEqual([4, 3]);
  });
});
