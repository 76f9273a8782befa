import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { assets } from "../../src/dashboard/assets.ts";
import type { RunningWorker } from "../node/worker.ts";
import { problemsOf } from "./axe.ts";
import { useBrowser } from "./chromium.ts";

// Checks every page, in both themes and at two widths. No page may have accessibility problems, scroll horizontally or violate its content
// security policy. Each page must load few bytes, all from its own origin.

const longName = `${"😀".repeat(80)} مفتاح الخلفية`;
const { worker, browser } = useBrowser();
let paths: string[];
const at = (path: string) => `http://localhost:${worker.port}${path}`;

const api: RunningWorker["api"] = (...request) => worker.api(...request);

/**
 * Waits until the log contains the failed requests that the setup of the test sent. Returns the log entry of the rejected request to create
 * a task.
 */
async function waitForLog(): Promise<{ id: string }> {
  return vi.waitFor(
    async () => {
      expect((await api("GET", "/activity?status=404")).data).toHaveLength(2);
      const [rejected] = (await api("GET", "/activity?status=422")).data;
      expect(rejected).toBeDefined();
      return rejected;
    },
    { timeout: 5000, interval: 100 },
  );
}

/** Waits until the first attempt of a webhook's delivery has failed. Returns the delivery. */
async function waitForFailedAttempt(webhookId: string): Promise<{ id: string }> {
  return vi.waitFor(
    async () => {
      const [delivery] = (await api("GET", `/webhooks/${webhookId}/deliveries`)).data;
      expect(delivery?.attempts_made).toBeGreaterThanOrEqual(1);
      return delivery;
    },
    { timeout: 10_000, interval: 100 },
  );
}

beforeAll(async () => {
  const pathsWithoutData = [
    "/",
    "/usage",
    "/limits",
    "/keys",
    "/keys/new",
    "/webhooks",
    "/webhooks/new",
    "/activity",
    "/docs",
    "/docs/api/createTask",
    "/docs/api/revokeLeakedKey",
    "/docs/guides/webhooks",
    "/docs/guides/quick-start",
    "/docs/errors/invalid_body",
    "/docs/events/task.created",
    "/docs/schemas/Task",
    "/docs/search?q=limit",
    "/docs/no-such-page",
    "/settings",
    "/search?q=",
    "/login",
    "/login/recovery",
    "/setup",
    "/nothing/here",
    `/${"long".repeat(60)}`,
  ];
  const key = await api("POST", "/keys", { name: longName, expires_at: new Date(Date.now() + 86_400_000).toISOString() });
  await api("POST", `/keys/${key.id}/rotate`, { overlap_seconds: 3600 });
  // No server listens on port 9, so the deliveries of this webhook fail.
  const webhook = await api("POST", "/webhooks", { url: "http://localhost:9/hook", description: longName, event_types: ["*"] });
  await api("POST", "/tasks", { title: longName });
  await api("GET", "/tasks/tsk_1");
  await api("POST", "/tasks", { title: "" });
  await api("GET", `/${"x".repeat(300)}`);
  const rejected = await waitForLog();
  const delivery = await waitForFailedAttempt(webhook.id);
  const pathsWithData = [
    "/settings/audit",
    `/keys/${key.id}`,
    `/keys/${key.id}/settings`,
    `/keys/${key.id}/settings?done=changed&add=users:write`,
    `/keys/${key.id}/rotate`,
    `/keys/${key.id}/revoke`,
    "/keys?status=revoked",
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}/verify`,
    `/webhooks/${webhook.id}/settings`,
    `/webhooks/${webhook.id}/rotate-secret`,
    `/webhooks/${webhook.id}/redeliver`,
    `/webhooks/${webhook.id}/delete`,
    `/deliveries/${delivery.id}`,
    `/activity/${rejected.id}`,
    "/activity?method=DELETE",
    "/usage?window=24h",
    `/usage?${new URLSearchParams({ from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date().toISOString(), sort: "average" })}`,
    "/activity?status=404",
    `/usage?window=7d&key_id=${key.id}`,
    "/search?q=a",
  ];
  paths = [...pathsWithoutData, ...pathsWithData];
});

describe.each([
  ["light", 1280],
  ["light", 320],
  ["dark", 1280],
  ["dark", 320],
] as const)("Every page in the %s theme at %i pixels", (colorScheme, width) => {
  it("passes axe, does not scroll horizontally, and loads only allowed files of its own origin", async () => {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 }, bypassCSP: false });
    const problems: string[] = [];
    const client = await context.newPage();
    client.on(
      "console",
      (message) => message.type() === "error" && !/status of (?:403|404|409|422)/.test(message.text()) && problems.push(message.text()),
    );
    client.on(
      "request",
      (request) => !request.url().startsWith(at("/")) && !request.url().startsWith("data:") && problems.push(`loads ${request.url()}`),
    );
    for (const path of paths) {
      await client.goto(at(path));
      problems.push(...(await problemsOf(client)));
    }
    // The pages that appear only after a form is sent.
    for (const [path, field, text, button] of [
      ["/keys/new", "Name", `${width} ${colorScheme}`, "Create key"],
      ["/keys/new", "Allowed IPs", "nowhere", "Create key"],
      ["/webhooks/new", "URL", "http://localhost:9/gates", "Add webhook"],
    ] as const) {
      await client.goto(at(path));
      if (field === "Allowed IPs") await client.getByLabel("Name", { exact: true }).fill(longName);
      await client.getByLabel(field, { exact: true }).fill(text);
      if (path === "/webhooks/new") await client.getByRole("checkbox", { name: "*", exact: true }).check();
      const loaded = client.waitForEvent("load");
      await client.getByRole("button", { name: button, exact: true }).click();
      await loaded;
      problems.push(...(await problemsOf(client)));
    }
    await context.close();
    expect(problems).toEqual([]);
  }, 180_000);
});

describe("Every page", () => {
  it("loads at most 25 KB of script and 25 KB of HTML and CSS, compressed", async () => {
    const style = gzipSync(await (await fetch(at(assets["style.css"]))).text()).length;
    const tooLarge: string[] = [];
    for (const path of paths) {
      const html = await (await fetch(at(path), { headers: { "Sec-Fetch-Site": "none" } })).text();
      const scripts = await Promise.all(
        [...html.matchAll(/<script[^>]* src="([^"]+)"/g)].map(async ([, src]) => (await fetch(at(src ?? ""))).text()),
      );
      const [scriptBytes, pageBytes] = [scripts.reduce((sum, text) => sum + gzipSync(text).length, 0), gzipSync(html).length + style];
      if (scriptBytes > (path.startsWith("/docs") ? 12_000 : 25_000) || pageBytes > 25_000)
        tooLarge.push(`${path}: ${scriptBytes} bytes of script, ${pageBytes} bytes of HTML and CSS`);
    }
    expect(tooLarge).toEqual([]);
  });

  it("has an LCP below 300 ms, no task longer than 50 ms, and no layout shift", async () => {
    const problems: string[] = [];
    for (const path of paths) {
      const page = await browser.newPage();
      await page.addInitScript(`
        window.seen = { lcp: 0, cls: 0, longest: 0 };
        const watch = (type, see) => new PerformanceObserver((list) => list.getEntries().forEach(see)).observe({ type, buffered: true });
        watch("largest-contentful-paint", (entry) => { seen.lcp = entry.startTime; });
        watch("layout-shift", (entry) => { if (!entry.hadRecentInput) seen.cls += entry.value; });
        watch("longtask", (entry) => { seen.longest = Math.max(seen.longest, entry.duration); });
      `);
      const loads: { lcp: number; cls: number; longest: number }[] = [];
      // The first load only warms up the Worker. Of the other loads, the best load counts, because other work on the machine can slow a
      // load down.
      for (let load = 0; load <= 15 && !loads.slice(1).some(({ lcp, longest }) => lcp <= 300 && longest <= 50); load++) {
        await page.goto(at(path));
        // The test needs this fixed wait to show that no content moves after the page has loaded.
        await page.waitForTimeout(200);
        loads.push((await page.evaluate("seen")) as (typeof loads)[number]);
      }
      const counted = loads.slice(1);
      const [lcp, longest] = [Math.min(...counted.map((each) => each.lcp)), Math.min(...counted.map((each) => each.longest))];
      const cls = Math.max(...counted.map((each) => each.cls));
      if (lcp > 300 || longest > 50 || cls > 0.02) problems.push(`${path}: LCP ${lcp} ms, longest task ${longest} ms, CLS ${cls}`);
      await page.close();
    }
    expect(problems).toEqual([]);
  }, 180_000);
});
