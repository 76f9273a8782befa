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

  it("has a bar for each whole day and for today, with its failed and refused requests, and cuts off a spike until asked", async () => {
    const { accountId, keyId } = await makeTenant();
    const hour = hourStart(Date.now()) - hourMs;
    const of = (start: number, count: number, more = {}) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, start + n, more));
    await write([
      ...Array.from({ length: 20 }, (_, n) => of(hour - n * hourMs, 2)).flat(),
      ...of(hour, 20),
      ...of(hour, 3, { status: 500 }),
      ...of(hour, 5, { status: 429, admitted: false, counted: false }),
    ]);
    const { get } = browse(accountId);
    await vi.waitFor(async () => {
      const { text } = await get("/usage?window=24h");
      expect(text).toContain(": 30 requests, 3 failed, 5 refused</title>");
      expect(textOf({ text })).toMatch(/cut off: \d+ \w+ \d\d:00 with 30 /);
    }, logDelay);
    const { text } = await get("/usage?window=24h&scale=full");
    expect([text.includes("cut off"), text.includes('href="/usage?window=24h"')]).toEqual([false, true]);
    const [days = "", times = ""] = (await get("/usage?window=30d")).text.split('id="times-part"');
    const startsIn = (part: string) => [...part.matchAll(/data-from="(\d+)"/g)].map(([, from]) => Number(from));
    const starts = startsIn(days);
    // The chart of the response times has the same days below it.
    expect(startsIn(times)).toEqual(starts);
    expect(starts.filter((start) => start % dayMs !== 0)).toEqual([]);
    expect(starts.length).toBeGreaterThanOrEqual(29);
    expect(starts.length).toBeLessThanOrEqual(30);
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
    expect(text).toMatch(/ \d\d:00 to \d\d:00: Test key , 30 requests refused, limit 150, against 0 a week before\./);
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
