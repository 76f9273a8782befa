import { describe, expect, it, vi } from "vitest";
import { dayMs, hourMs, hourStart } from "../../../src/lib/time/clock.ts";
import { browse, textOf } from "../support/browse.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";

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
    const limits = [
      { name: "minute", limit: 900, used: 30 },
      { name: "hour", limit: 150, used: 150 },
    ];
    const denied = { status: 429, admitted: false, counted: false, errorCode: "rate_limit_exceeded", violated: ["hour"], limits };
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
    expect(text).toMatch(/ \d\d:00 to \d\d:00: Test key , 30 requests denied, limit 150, against 0 a week before\./);
    expect(page.text).toContain(`href="/activity?status=429&amp;key_id=${keyId}&amp;from=`);
    expect(text).toMatch(/By key .* Test key 70 77\.78% .* Other 20 22\.22%/);
    const [, ...rows] = (await get(`/usage.csv?${span}`)).text.trim().split("\r\n");
    expect(rows.map((row) => row.split(",").slice(1, 3))).toEqual([["90", "60"]]);
    expect(textOf(await get(`/usage?${span}&key_id=${otherId}`))).toContain("nothing differs notably from a week before");
    // The figures lead to the charts of the same span.
    expect([...page.text.matchAll(/href="([^"]*#(?:requests|times))"/g)].map(([, href]) => href)).toEqual([
      "#requests",
      "#requests",
      "#times",
    ]);
    // A span that is not one of the past is ignored.
    expect(textOf(await get("/usage?from=2999-01-01T00:00:00Z&to=2999-01-02T00:00:00Z"))).toContain("Last 30 days");
  });

  it("says of a span what it has that a week before had not, and links to exactly the requests that differ", async () => {
    const { accountId, keyId } = await makeTenant();
    const from = hourStart(Date.now() - 50 * hourMs);
    const of = (count: number, more: Parameters<typeof entryOf>[2]) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, from + n, more));
    const { get } = browse(accountId);
    const span = new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(from + hourMs).toISOString() });
    await write(of(7, {}));
    expect(textOf(await get(`/usage?${span}`))).toContain(": 7 requests, none a week before.");
    await write([...of(12, { status: 404 }), ...of(15, { status: 403 }), ...of(5, { status: 429, admitted: false, counted: false })]);
    const page = await get(`/usage?${span}`);
    expect(textOf(page)).toContain("Test key , 27 requests rejected with 4xx, against 0 a week before.");
    const [, list = ""] = /href="([^"]+)"><bdi>Test key<\/bdi><\/a>, /.exec(page.text) ?? [];
    expect(list).toContain("status=403%2C404");
    expect((await get(list.replaceAll("&amp;", "&"))).text.split('class="row"').length - 1).toBe(27);
  });

  it("opens the days if they are sorted, leads from each to its part of the span, and tells keys of one name apart", async () => {
    const { accountId, keyId } = await makeTenant();
    const [one, other] = [await makeKey(accountId, { name: "Twin" }), await makeKey(accountId, { name: "Twin" })];
    const from = hourStart(Date.now() - 50 * hourMs);
    await write([keyId, one.keyId, other.keyId].map((id) => entryOf({ accountId, keyId: id }, from)));
    const { get } = browse(accountId);
    const span = new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(from + hourMs).toISOString() });
    const [plain, sorted] = await Promise.all([get(`/usage?${span}`), get(`/usage?${span}&sort=success`)]);
    const daysOf = ({ text }: { text: string }) => text.slice(text.indexOf('id="by-day"'));
    expect([/<details open/.test(daysOf(plain)), /<details open/.test(daysOf(sorted))]).toEqual([false, true]);
    const [, day = ""] = /href="([^"]+)">\d{4}-\d\d-\d\d</.exec(daysOf(plain)) ?? [];
    expect(new URL(day.replaceAll("&amp;", "&"), "http://localhost").search).toContain(String(span));
    const names = [...plain.text.matchAll(/<option value="key_\w+">([^<]+)</g)].map(([, name]) => name);
    expect(names.filter((name) => name?.startsWith("Twin …"))).toHaveLength(2);
    expect(new Set(names).size).toBe(names.length);
  });

  it("leads from each route to its requests, with their bars", async () => {
    const { accountId, keyId } = await makeTenant();
    const from = hourStart(Date.now() - 50 * hourMs);
    const of = (count: number, more: Parameters<typeof entryOf>[2]) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, from + n, more));
    await write([...of(5, {}), ...of(4, { path: "/api/v1/tasks/tsk_1", route: "/api/v1/tasks/{id}" })]);
    const { get } = browse(accountId);
    const span = new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(from + hourMs).toISOString() });
    const { text } = await get(`/usage?${span}`);
    const [, list = ""] = /href="([^"]+)"><code>\/api\/v1\/tasks\/\{id\}/.exec(text) ?? [];
    const log = await get(list.replaceAll("&amp;", "&"));
    expect(log.text.split('class="row"').length - 1).toBe(4);
    expect(textOf(log)).toContain("4 requests in the time of the filter.");
    expect(textOf(log)).toContain("Route: /api/v1/tasks/{id}");
    expect(log.text).toContain(`href="/usage?from=${encodeURIComponent(new Date(from).toISOString())}`);
    // The totals have no methods.
    expect(textOf(await get(`/activity?method=GET&${span}`))).toContain("Chart: 9 requests of all methods, ");
  });

  it("says of a time without requests that it has none, and not that it is new", async () => {
    const { accountId, keyId } = await makeTenant();
    const from = hourStart(Date.now() - 50 * hourMs);
    const { get } = browse(accountId);
    const span = new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(from + hourMs).toISOString() });
    expect(textOf(await get(`/usage?${span}`))).toMatch(/Success Rate – none as before, /);
    await write([entryOf({ accountId, keyId }, from - 7 * dayMs)]);
    const text = textOf(await get(`/usage?${span}`));
    expect(text).toContain("Total Requests 0 −100.0% against 1,");
    expect(text).toMatch(/Success Rate – none against 100%, .* Avg Response Time – none against 10\.0 ms, /);
  });

  it("keeps its bars visible beside a far higher hour of the day before", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    const of = (count: number, time: number) => Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, time + n));
    await write([...of(9, now - 2 * hourMs), ...of(300, now - 26 * hourMs)]);
    const page = await browse(accountId).get("/usage?window=24h");
    expect(textOf(page)).toContain("a day before, up to 300");
    expect(page.text).toContain('class="over"');
  });

  it("has bars that open exactly what they count, and says that a span ends with the current hour", async () => {
    const tenant = await makeTenant();
    const now = Date.now();
    await write([entryOf(tenant, now - 1000), entryOf(tenant, now - 30 * dayMs)]);
    const { get } = browse(tenant.accountId);
    const { text } = await get("/usage?window=30d");
    const [first] = [...text.matchAll(/data-from="(\d+)"/g)].map(([, from]) => Number(from));
    expect([hourStart(now) - 30 * dayMs + hourMs, hourStart(Date.now()) - 30 * dayMs + hourMs]).toContain(first);
    const openSpan = new URLSearchParams({
      from: new Date(hourStart(now)).toISOString(),
      to: new Date(hourStart(now) + hourMs).toISOString(),
    });
    expect((await get(`/usage?${openSpan}`)).text).toContain("The span ends with the current hour, which is not over yet.");
    const pastSpan = new URLSearchParams({
      from: new Date(hourStart(now) - hourMs).toISOString(),
      to: new Date(hourStart(now)).toISOString(),
    });
    expect((await get(`/usage?${pastSpan}`)).text).not.toContain("not over yet");
  });

  it("draws no compared line over a day that is counted in part", async () => {
    const tenant = await makeTenant();
    await write(Array.from({ length: 60 }, (_, day) => entryOf(tenant, Date.now() - 1000 - day * dayMs)));
    const { text } = await browse(tenant.accountId).get("/usage?window=30d");
    const [, chart = ""] = text.split('id="requests-part"');
    const bars = [...(chart.split("</figure>")[0] ?? "").matchAll(/data-from="(\d+)" data-to="(\d+)"/g)];
    const whole = bars.filter(([, from, to]) => Number(to) - Number(from) === dayMs);
    const [, points = ""] = /<polyline class="before"[^>]*points="([^"]*)"/.exec(chart) ?? [];
    expect([bars.length >= 30, points.split(" ").length]).toEqual([true, 2 * whole.length]);
  });

  it("names the keys of the busiest hour, and the page of limits lists the limits of each key", async () => {
    const tenant = await makeTenant({ hourlyLimit: 7, name: "Courier", otherLimits: [{ per: "month", limit: 90 }] });
    await write([entryOf(tenant, Date.now() - 1000)]);
    const { get } = browse(tenant.accountId);
    const ofKey = textOf(await get(`/usage?key_id=${tenant.keyId}`));
    expect([ofKey.includes("Busiest hour:"), ofKey.includes("of all keys")]).toEqual([true, false]);
    expect(textOf(await get("/usage"))).toContain("Busiest hour of all keys:");
    expect(textOf(await get("/limits"))).toMatch(/Each key .* Courier 7 per hour 0 0% 7 .* Courier 90 per month 0 0% 90/);
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
