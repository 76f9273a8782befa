import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { fieldErrorsOf } from "./axe.ts";
import { startChromium } from "./chromium.ts";

// What holds for every page, in both themes and at both widths. It has no accessibility faults, does not scroll sideways, loads little and
// only from its own origin, and violates no policy.

const longName = `${"😀".repeat(90)} مفتاح الخلفية`;
let worker: RunningWorker;
let browser: Browser;
let paths: string[];
const at = (path: string) => `http://localhost:${worker.port}${path}`;

const api: RunningWorker["api"] = (...asked) => worker.api(...asked);

beforeAll(async () => {
  [worker, browser] = await Promise.all([startWorker(), startChromium()]);
  const empty = [
    "/",
    "/usage",
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
  ];
  const key = await api("POST", "/keys", { name: longName, expires_at: new Date(Date.now() + 86_400_000).toISOString() });
  await api("POST", `/keys/${key.id}/rotate`, { overlap_seconds: 3600 });
  // Nobody listens there: it fails.
  const webhook = await api("POST", "/webhooks", { url: "http://localhost:9/hook", description: longName, event_types: ["*"] });
  await api("POST", "/tasks", { title: longName });
  await api("GET", "/tasks/tsk_1");
  await api("POST", "/tasks", { title: "" });
  await api("GET", `/${"x".repeat(300)}`);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const [refused] = (await api("GET", "/activity?status=422")).data;
  const [delivery] = (await api("GET", `/webhooks/${webhook.id}/deliveries`)).data;
  const used = [
    "/settings/audit",
    `/keys/${key.id}`,
    `/keys/${key.id}?done=changed`,
    `/keys/${key.id}/rotate`,
    `/keys/${key.id}/revoke`,
    "/keys?status=revoked",
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}/rotate-secret`,
    `/webhooks/${webhook.id}/redeliver`,
    `/webhooks/${webhook.id}/delete`,
    `/deliveries/${delivery.id}`,
    `/activity/${refused.id}`,
    "/activity?method=DELETE",
    "/usage?window=24h",
    `/usage?window=7d&key_id=${key.id}`,
    "/search?q=a",
  ];
  paths = [...empty, ...used];
});

afterAll(async () => {
  await Promise.all([browser?.close(), worker?.stop()]);
});

describe.each([
  ["light", 1280],
  ["light", 320],
  ["dark", 1280],
  ["dark", 320],
] as const)("Every page in %s at %i pixels", (colorScheme, width) => {
  it("has nothing that axe complains of, scrolls in one direction, and loads what is its own and allowed", async () => {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 }, bypassCSP: false });
    const found: string[] = [];
    const client = await context.newPage();
    client.on(
      "console",
      (message) => message.type() === "error" && !/status of (?:403|404|409|422)/.test(message.text()) && found.push(message.text()),
    );
    client.on(
      "request",
      (request) => !request.url().startsWith(at("/")) && !request.url().startsWith("data:") && found.push(`asks ${request.url()}`),
    );
    for (const path of paths) {
      await client.goto(at(path));
      found.push(...(await fieldErrorsOf(client)));
    }
    // The pages that only a form leads to.
    for (const [path, field, text, button] of [
      ["/keys/new", "Name", `${width} ${colorScheme}`, "Create key"],
      ["/keys/new", "Allowed IPs", "nowhere", "Create key"],
      ["/webhooks/new", "URL", "http://localhost:9/gates", "Add webhook"],
    ] as const) {
      await client.goto(at(path));
      if (field === "Allowed IPs") await client.getByLabel("Name", { exact: true }).fill(longName);
      await client.getByLabel(field, { exact: true }).fill(text);
      if (path === "/webhooks/new") await client.getByRole("checkbox", { name: "*", exact: true }).check();
      const answered = client.waitForEvent("load");
      await client.getByRole("button", { name: button, exact: true }).click();
      await answered;
      found.push(...(await fieldErrorsOf(client)));
    }
    await context.close();
    expect(found).toEqual([]);
  }, 180_000);
});

describe("A page", () => {
  it("takes at most 25 KB of script and 25 KB of HTML and style, compressed", async () => {
    const style = gzipSync(await (await fetch(at("/style.css"))).text()).length;
    const heavy: string[] = [];
    for (const path of paths) {
      const html = await (await fetch(at(path), { headers: { "Sec-Fetch-Site": "none" } })).text();
      const scripts = await Promise.all(
        [...html.matchAll(/<script[^>]* src="([^"]+)"/g)].map(async ([, src]) => (await fetch(at(src ?? ""))).text()),
      );
      const [ofScript, ofPage] = [scripts.reduce((sum, text) => sum + gzipSync(text).length, 0), gzipSync(html).length + style];
      if (ofScript > (path.startsWith("/docs") ? 12_000 : 25_000) || ofPage > 25_000)
        heavy.push(`${path}: ${ofScript} of script, ${ofPage} of page`);
    }
    expect(heavy).toEqual([]);
  });

  it("shows its largest part within 0.3 s, works at most 50 ms at a time, and moves nothing once it is there", async () => {
    const found: string[] = [];
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
      // The first load warms the Worker up; of the others the best counts, since this machine does other things meanwhile.
      for (let load = 0; load <= 5 && !loads.slice(1).some(({ lcp, longest }) => lcp <= 300 && longest <= 50); load++) {
        await page.goto(at(path));
        await page.waitForTimeout(200);
        loads.push((await page.evaluate("seen")) as (typeof loads)[number]);
      }
      const counted = loads.slice(1);
      const [lcp, longest] = [Math.min(...counted.map((each) => each.lcp)), Math.min(...counted.map((each) => each.longest))];
      const cls = Math.max(...counted.map((each) => each.cls));
      if (lcp > 300 || longest > 50 || cls > 0.02) found.push(`${path}: LCP ${lcp} ms, longest task ${longest} ms, CLS ${cls}`);
      await page.close();
    }
    expect(found).toEqual([]);
  }, 180_000);
});
