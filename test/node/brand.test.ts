/** @module-tag process */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { root, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// A Worker with the sample brand. A customer finds the team's name everywhere, and nowhere that of this product.

const brandFile = (name: string) => readFileSync(join(root, "brands/acme", name), "utf8");

/** Our names, and the words of D2 of the review: what only the team that runs the Worker knows. `operator` is a value of the API. */
const ours = /developer[- ]overview|\bdvop?_|\bworkers?\b|\bD1\b(?!\+|\/|=)|\blaptop|\bnpm\b|wrangler|\bdeploy|\brepositor/gi;

const poweredBy = "<span>Powered by Developer Overview</span>";

let worker: RunningWorker;
let key = "";
let cookie = "";

beforeAll(async () => {
  worker = await startWorker({
    files: {
      "overview.toml": brandFile("overview.toml").replace("powered_by = false", 'powered_by = true\nfont = "font.woff2"'),
      "font.woff2": "wOF2, and then what a browser reads",
      "logo.svg": brandFile("logo.svg"),
      "guides/getting-orders.md": "# Getting orders\n\nRead the orders of your shop. It takes two calls.\n",
      "guides/changelog.md": "# Changelog\n\n## 2026-11-30\n\nOrders have a currency.\n",
    },
  });
  // The settings do not list the prefix of the key that all tests begin with.
  await worker.sql("UPDATE api_keys SET state = 'revoked'");
  const made = await run("npm", ["run", "--silent", "account", "--", "--name", "Globex", "--email", "globex@example.com"], {
    cwd: worker.folder,
  });
  const [accountId = "", secretKey = ""] = made.out.trim().split("\n");
  key = secretKey;
  const chosen = await fetch(`http://localhost:${worker.port}/?account=${accountId}`, {
    headers: { "Sec-Fetch-Site": "none" },
    redirect: "manual",
  });
  cookie = (chosen.headers.getSetCookie()[0] ?? "").split(";")[0] ?? "";
});
afterAll(() => worker?.stop());

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`http://localhost:${worker.port}${path}`, {
    redirect: "manual",
    headers: { "Sec-Fetch-Site": "none", Cookie: cookie, ...headers },
  });
const call = (method: string, path: string, body?: object, given = key) =>
  fetch(`http://localhost:${worker.port}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${given}`, "Content-Type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });

interface Found {
  where: string;
  text: string;
}

/** Follows all links from the given paths. Returns the number of pages, and where they or their headers have one of our names. */
async function crawl(paths: readonly string[], headers: Record<string, string> = {}): Promise<{ pages: number; found: Found[] }> {
  const [queue, seen, found] = [[...paths], new Set<string>(), [] as Found[]];
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    if (seen.has(path)) continue;
    seen.add(path);
    const response = await get(path, headers);
    const text = await response.text();
    // The nonce of a page is random text.
    const shown = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n") + text;
    const plain = shown.replaceAll(/nonce(?:-|=")[\w+/=-]+/g, "");
    for (const { 0: each, index } of plain.matchAll(ours))
      found.push({ where: path, text: plain.slice(index - 40, index + each.length + 40) });
    if (!(response.headers.get("Content-Type") ?? "").includes("html")) continue;
    const links = [...text.matchAll(/(?:href|src)="(\/[^"#]*)/g)].map(([, link = ""]) => link.replaceAll("&amp;", "&"));
    queue.push(...links.filter((link) => !/^\/(?:operator|logout|docs\/team)/.test(link) && !(seen.size > 250 && link.includes("?"))));
  }
  return { pages: seen.size, found };
}

describe("With a brand", () => {
  it("no page, document, file or header has our name but for the line that the team lets stand, or a word of those who run the Worker", async () => {
    await call("POST", "/keys", { name: "Nightly", scopes: ["orders:read"] });
    await call("POST", "/webhooks", { url: "https://hooks.example.com/x", event_types: ["*"] });
    const machine = [
      "/llms.txt",
      "/robots.txt",
      "/sitemap.xml",
      "/docs.md",
      "/api/v1/openapi.json",
      "/api/v1/openapi.yaml",
      "/.well-known/api-catalog",
    ];
    const files = ["/usage.csv", "/activity.csv"];
    const { pages, found } = await crawl(["/", ...machine, ...files, "/login", "/setup", "/nothing", "/docs/nothing", "/keys/key_none"]);
    // The one line that `powered_by` adds.
    expect(found.filter(({ text }) => !text.includes(poweredBy)).slice(0, 5)).toEqual([]);
    expect(found.length).toBeGreaterThan(100);
    expect(pages).toBeGreaterThan(200);
  });

  it("no answer of the API has them, whether it succeeds or not", async () => {
    const answers = [
      call("GET", "/me"),
      call("GET", "/keys"),
      call("GET", "/nothing"),
      call("GET", "/me", undefined, "acme_live_none"),
      call("POST", "/keys", { name: "" }),
      call("DELETE", "/me"),
      call("GET", "/event-types"),
      fetch(`http://localhost:${worker.port}/api/v1/me`),
    ];
    for (const answer of await Promise.all(answers)) {
      const text = [...answer.headers].join("\n") + (await answer.text());
      expect([answer.url, text.match(ours)]).toEqual([answer.url, null]);
    }
  });

  it("the pages have the name, the logo, the colours and the links of the team", async () => {
    const page = await get("/keys");
    const text = await page.text();
    const missing = await (await get("/nothing")).text();
    expect(missing).toMatch(/href="https:\/\/support\.acme\.example\/new\?request=req_[0-9a-f]{32}">Ask Acme</);
    expect(page.headers.get("Content-Security-Policy")).toContain("font-src 'self';");
    expect(text).toContain("<title>API Keys · Acme</title>");
    const style = /href="(\/brand\/brand\.\w+\.css)"/.exec(text)?.[1] ?? "";
    expect(await (await get(style)).text()).toContain("--accent:light-dark(#6d28d9,");
    const logo = await get(/src="(\/brand\/logo\.\w+\.svg)"/.exec(text)?.[1] ?? "");
    expect([logo.status, logo.headers.get("Content-Type")]).toEqual([200, "image/svg+xml"]);
    for (const link of [
      "https://app.acme.example",
      "https://status.acme.example",
      "https://acme.example/terms",
      "https://acme.example/privacy",
    ])
      expect(text).toContain(`href="${link}"`);
  });

  it("a new key has the first prefix, and keys with the other prefix work, too", async () => {
    const made = (await (await call("POST", "/keys", { name: "Second", scopes: ["orders:read"] })).json()) as Record<string, string>;
    expect([made.prefix, made.secret_key]).toEqual([`acme_live_${made.id?.slice(4)}`, expect.stringContaining(`${made.prefix}_`)]);
    expect((await call("GET", "/me", undefined, made.secret_key)).status).toBe(200);
    const list = (await (await call("GET", "/keys")).json()) as { data: { prefix: string }[] };
    expect(list.data.map(({ prefix }) => prefix.slice(0, 10))).toEqual(list.data.map(() => "acme_live_"));
    // The tag of a key covers its prefix.
    expect((await call("GET", "/me", undefined, made.secret_key?.replace("acme_live", "acme"))).status).toBe(401);
    // The key of the account of before.
    expect((await call("GET", "/me", undefined, worker.key)).status).toBe(401);
  });

  it("a key in a path is masked in the log, and a word that ends like a prefix is not", async () => {
    const { secret_key: secret = "", prefix } = (await (await call("POST", "/keys", { name: "Lost" })).json()) as Record<string, string>;
    await call("GET", `/nothing/${secret}`);
    await call("GET", "/macacme/abcdefghijklmnop12");
    await vi.waitFor(
      async () => {
        const { data } = (await (await call("GET", "/activity?status=404")).json()) as { data: { path: string }[] };
        expect(data.map(({ path }) => path)).toEqual(
          expect.arrayContaining([`/api/v1/nothing/${prefix}`, "/api/v1/macacme/abcdefghijklmnop12"]),
        );
      },
      { timeout: 15_000, interval: 300 },
    );
  });

  it("the documentation begins with the team's guides, and uses its prefix and its variables", async () => {
    const start = await (await get("/docs.md")).text();
    expect(start.indexOf("[Getting orders](/docs/guides/getting-orders): Read the orders of your shop.")).toBeGreaterThan(0);
    expect(start.indexOf("Getting orders")).toBeLessThan(start.indexOf("/docs/guides/quick-start): "));
    expect(await (await get("/docs/guides/changelog.md")).text()).toContain("Orders have a currency.");
    expect(await (await get("/docs/api/getMe.md")).text()).toContain('"Authorization: Bearer $ACME_API_KEY"');
    expect(await (await get("/docs/guides/quick-start.md")).text()).toContain("ACME_API_KEY=acme_live_...");
    const document = (await (await get("/api/v1/openapi.json")).json()) as { info: { title: string } };
    expect(document.info.title).toBe("Acme Developers API");
    expect(await (await get("/llms.txt")).text()).toMatch(/^# Acme Developers\n/);
    expect((await get("/activity.csv")).headers.get("Content-Disposition")).toContain('filename="acme-activity');
  });
});
