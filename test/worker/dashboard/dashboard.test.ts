import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import packageJson from "../../../package.json" with { type: "json" };
import { createApp } from "../../../src/app.ts";
import { assets } from "../../../src/dashboard/assets.ts";
import { daysOf, exactMilliseconds, integer, milliseconds, rate, signed, wholePercent } from "../../../src/dashboard/format.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { browse, textOf } from "../support/browse.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";
import { deleteJobs } from "../support/storage-rows.ts";

const openOverview = (accountId: string, more = "") => call("GET", `/?account=${accountId}${more}`, { "Sec-Fetch-Site": "none" });

describe("The overview", () => {
  it("shows the figures, the latest requests and the keys of an account within two seconds of a request", async () => {
    const { accountId, key } = await makeTenant();
    await makeKey(accountId, { name: "<b>Éclair & sons</b> 😀" });
    await call("GET", "/api/v1/users", { key });
    await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await call("GET", "/api/v1/tasks/tsk_1", { key });
    const { status, text, headers } = await vi.waitFor(async () => {
      const page = await openOverview(accountId);
      expect(page.text).toContain("tsk_1");
      // The figures on the page can be older than the list of requests on the page.
      expect(page.text).toContain("66.67%");
      return page;
    }, logDelay);
    expect([status, headers.get("Content-Type")]).toEqual([200, "text/html; charset=UTF-8"]);
    expect(text.startsWith("<!doctype html>")).toBe(true);
    for (const shown of [
      "Total Requests",
      "Success Rate",
      "Avg Response Time",
      "Rate Limit Usage",
      "3 / 5,000 per hour",
      "66.67%",
      "404 Not Found",
      "201 Created",
    ]) {
      expect(text, shown).toContain(shown);
    }
    // A request can be up to two seconds old when the page shows it.
    expect(text).toMatch(/just now|[12] seconds? ago/);
    expect(text).toContain("&lt;b&gt;Éclair &amp; sons&lt;/b&gt; 😀");
    expect(text).not.toContain(key.slice(21));
  });

  it("names the biggest change since the month before if chance does not explain it", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    const entriesOf = (daysAgo: number, route: string, count: number) =>
      Array.from({ length: count }, (_, n) => entryOf({ accountId, keyId }, now - daysAgo * dayMs - n, { route }));
    await write([...entriesOf(40, "/api/v1/tasks", 30), ...entriesOf(3, "/api/v1/tasks", 25)]);
    // Chance explains this difference.
    expect((await openOverview(accountId)).text).not.toContain("Biggest change");
    await write(entriesOf(41, "/api/v1/tasks", 120));
    const { text } = await openOverview(accountId);
    expect(text.replaceAll(/<[^>]+>/g, "")).toMatch(/Biggest change: .+, 25 requests, 125 fewer than in the 30 days before\./);
  });

  it("of an account without requests leads to the first call, with a line for each of its parts and no figures", async () => {
    const { accountId, keyId } = await makeTenant();
    const { text } = await openOverview(accountId);
    const headings = [...text.matchAll(/<h[12][^>]*>(.*?)<\/h[12]>/g)].map(([, heading = ""]) => heading.replaceAll(/<[^>]+>/g, ""));
    expect(headings).toEqual([
      "Make your first call",
      "1. Create a key",
      "2. Call the API",
      "3. Add a webhook, if you like",
      "API Usage - Last 30 Days",
      "Recent Activity",
      "API Keys",
      "Webhooks",
      "Documentation",
    ]);
    expect(text).toContain(`data-live="/keys/${keyId}/first-request"`);
    await browse(accountId).post(`/keys/${keyId}/revoke`);
    const without = (await openOverview(accountId)).text;
    expect(without).toMatch(/<input[^>]*value="Development"/);
    expect(without.match(/<(?:button|a) [^>]*class="(?:button )?main"/g)).toHaveLength(1);
    expect(without).not.toContain("data-live");
  });

  it("shows the first request of a new account with its trace, one next step, and no comparison with a time before it", async () => {
    const { accountId, key } = await makeTenant();
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
    await vi.waitFor(async () => {
      const { text } = await openOverview(accountId);
      const [, first = ""] = /<section id="first-request".*?>(.*?)<\/section><\/section>/s.exec(text) ?? [];
      const shown = textOf({ text: first });
      expect(shown).toMatch(/Your first request GET \/api\/v1\/me ✓ 200 OK .*Admitted : 1 of 5,000 per hour used.*Next: Add a webhook/);
      expect(textOf({ text })).not.toMatch(/against|as before|the same weekdays/);
      expect(textOf({ text })).toContain("Total Requests 1 new");
    }, logDelay);
    // An account with more requests than the list holds knows its way.
    for (let count = 0; count < 9; count++) await call("GET", "/api/v1/tasks/tsk_1", { key });
    await vi.waitFor(async () => expect((await openOverview(accountId)).text).not.toContain("first-request"), logDelay);
  });

  it("of an account without requests that skips the first call says that there are none", async () => {
    const { accountId } = await makeTenant();
    const { text } = await openOverview(accountId, "&skip=1");
    expect(text).toContain("No requests yet");
    // A nonce is random and may contain any letters.
    expect(text.replaceAll(/nonce="[^"]*"/g, "")).not.toMatch(/NaN|Infinity|undefined|>null/);
  });

  it("has a content security policy that allows only its own script, and contains no inline styles or handlers", async () => {
    const { accountId } = await makeTenant();
    const { headers, text } = await openOverview(accountId, "&skip=1");
    const [, nonce] = /script-src 'nonce-([^']{16,})'/.exec(headers.get("Content-Security-Policy") ?? "") ?? [];
    expect(headers.get("Content-Security-Policy")).toBe(
      `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types overview`,
    );
    expect((await openOverview(accountId)).headers.get("Content-Security-Policy")).not.toContain(nonce);
    for (const [script] of text.matchAll(/<script[^>]*>[^<]*/g))
      expect(script).toBe(`<script type="module" src="${assets["overview.js"]}" nonce="${nonce}">`);
    expect(headers.get("Cache-Control")).toBe("no-store");
    expect(headers.get("X-Request-Id")).toMatch(/^req_/);
    expect(text).not.toMatch(/ style=| on[a-z]+=|https?:\/\//);
  });

  it("is open without a sign-in only under a local host name, in a local build, and for requests of its own site", async () => {
    const ctx = createExecutionContext();
    const statusOf = async (isLocal: boolean, url: string, headers: Record<string, string> = { "Sec-Fetch-Site": "none" }) =>
      (await createApp({ isLocal }).fetch(new Request(url, { headers }), env, ctx)).status;
    expect(await statusOf(true, "http://localhost:8787/")).toBe(200);
    expect(await statusOf(true, "http://127.0.0.1/")).toBe(200);
    expect(await statusOf(true, "http://evil.example/")).toBe(403);
    expect(await statusOf(true, "http://localhost.evil.example/")).toBe(403);
    expect(await statusOf(false, "http://localhost/")).toBe(303);
    expect(await statusOf(false, "https://overview.example/")).toBe(303);
    // Another site can point its own host name to this machine. The site can also send a header that makes the local runtime see
    // `localhost` instead.
    for (const headers of [{}, { "Sec-Fetch-Mode": "navigate" }, { "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }])
      expect(await statusOf(true, "http://localhost:8787/", headers as Record<string, string>), JSON.stringify(headers)).toBe(403);
    expect(await statusOf(true, "http://localhost:8787/", { "Sec-Fetch-Site": "same-origin" })).toBe(200);
  });
});

it("The health endpoint shows the version of the service and the state of each part", async () => {
  // Another test may have left a job that ran long ago.
  await deleteJobs();
  const { status, headers, text } = await call("GET", "/health");
  expect([status, headers.get("Content-Type")]).toEqual([200, "application/health+json"]);
  const { version, releaseId, checks } = JSON.parse(text);
  expect([version, typeof releaseId]).toEqual([packageJson.version, "string"]);
  expect(Object.keys(checks)).toEqual(["database:main", "guards:admission", "activity:log", "queue:deliveries", "cron:jobs"]);
});

it("Pages format numbers, durations, percentages and dates", () => {
  expect(integer(1_234_567_890)).toBe("1,234,567,890");
  expect([milliseconds(null), milliseconds(3.456), milliseconds(41.6), milliseconds(12_345)]).toEqual([
    "–",
    "3.5 ms",
    "42 ms",
    "12,345 ms",
  ]);
  expect([exactMilliseconds(null), exactMilliseconds(42.24), exactMilliseconds(12_345)]).toEqual(["–", "42.2 ms", "12,345.0 ms"]);
  expect([rate(null), rate(0), rate(99.99), rate(100)]).toEqual(["–", "0.00%", "99.99%", "100%"]);
  expect([wholePercent(67), wholePercent(66.6), wholePercent(99.98), wholePercent(100)]).toEqual(["67%", "67%", "99%", "100%"]);
  expect([signed(12.5, 1), signed(-3, 2), signed(0, 1)]).toEqual(["+12.5", "−3.00", "±0.0"]);
  expect(daysOf({ from: Date.UTC(2026, 8, 22), to: Date.UTC(2026, 9, 22) })).toBe("22 Sep to 21 Oct UTC");
});
