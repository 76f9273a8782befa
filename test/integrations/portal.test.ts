import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { chromiumOptions } from "../browser/chromium.ts";
import { freePort } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { operatorOf } from "./operator.ts";
import { blocksIn, modules, type Service, startService, stopAll, withNode } from "./services.ts";

// The samples of integrations/portal, in a real Chromium that blocks third-party cookies. The app and the overview are two sites: 127.0.0.1 and localhost.

const blocks = blocksIn("integrations/portal/README.md");
let worker: RunningWorker;
let operator: ReturnType<typeof operatorOf>;
let app: Service;
let accountId: string;
let browser: BrowserContext;
const profile = mkdtempSync(join(tmpdir(), "developer-overview-profile-"));

const react = `
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Developers } from "./developers.jsx";
createRoot(document.getElementById("root")).render(<StrictMode><Developers /></StrictMode>);
`;

/** Bundles the React sample with the packages of the integration tests. */
async function bundleOf(files: Record<string, string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "developer-overview-react-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const { outputFiles } = await build({
    entryPoints: [join(folder, "main.jsx")],
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    nodePaths: [modules],
    define: { "process.env.NODE_ENV": '"development"' },
  });
  rmSync(folder, { recursive: true });
  return outputFiles[0]?.text ?? "";
}

beforeAll(async () => {
  const port = await freePort();
  const hosts = `http://127.0.0.1:${port}`;
  worker = await startWorker({ signIn: true, files: { "overview.toml": `[portal]\nhosts = ["${hosts}"]\n` } });
  operator = operatorOf(worker);
  accountId = (await operator.call("PUT", "/accounts/by-external-id/globex", { name: "Globex" })).id;
  const token = await operator.makeToken("portal:write");
  const script = await bundleOf({ "developers.jsx": blocks["developers.jsx"] ?? "", "main.jsx": react });
  const env = { OVERVIEW_URL: `http://localhost:${worker.port}`, OVERVIEW_TOKEN: token, ACCOUNT_ID: accountId, APP_URL: hosts };
  app = await startService({ "app.mjs": blocks["app.mjs"] ?? "" }, withNode("app.mjs"), env, port);
  mkdirSync(join(app.folder, "public"));
  writeFileSync(join(app.folder, "public", "frame.html"), blocks["frame.html"] ?? "");
  writeFileSync(join(app.folder, "public", "react.js"), script);
  writeFileSync(
    join(app.folder, "public", "react.html"),
    '<!doctype html><div id="root"></div><script type="module" src="react.js"></script>',
  );
  mkdirSync(join(profile, "Default"), { recursive: true });
  const preferences = { profile: { cookie_controls_mode: 1, block_third_party_cookies: true } };
  writeFileSync(join(profile, "Default", "Preferences"), JSON.stringify(preferences));
  browser = await chromium.launchPersistentContext(profile, chromiumOptions());
}, 240_000);

afterAll(async () => {
  await browser?.close();
  await Promise.all([stopAll(), worker?.stop()]);
  rmSync(profile, { recursive: true, force: true });
});

const frameOf = (page: Page) => page.frameLocator("iframe");
const heightOf = (page: Page) => page.locator("iframe").evaluate((frame) => frame.getBoundingClientRect().height);

it("From the app, a user is in the account after one button, creates a key, calls the API, and goes back", async () => {
  const page = await browser.newPage();
  await page.goto(app.url);
  await page.getByRole("button", { name: "API keys" }).click();
  await page.getByRole("button", { name: /^Continue/ }).click();
  await page.getByRole("heading", { name: "Make your first call" }).waitFor();
  await page.getByRole("main").getByRole("button").first().click();
  const secret = (await page.getByLabel("Secret key").first().textContent()) ?? "";
  const response = await fetch(`http://localhost:${worker.port}/api/v1/me`, { headers: { Authorization: `Bearer ${secret.trim()}` } });
  expect(response.status).toBe(200);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page
    .getByRole("link", { name: /Back to/ })
    .first()
    .click();
  await page.waitForURL(`${app.url}/`);
  await page.close();
});

it.each([
  ["plain", "frame.html"],
  ["React", "react.html"],
])("The %s sample shows the keys in a frame at once, in its full height, and its forms work", async (_, path) => {
  const page = await browser.newPage();
  const errors: string[] = [];
  // Chromium lets no frame take the focus from the page around it, and says so.
  page.on("console", (message) => message.type() === "error" && !/autofocusing/.test(message.text()) && errors.push(message.text()));
  await page.goto(`${app.url}/${path}`);
  await frameOf(page).getByRole("heading", { name: "API Keys" }).waitFor();
  expect(await frameOf(page).locator("nav.main, header.top, footer").count()).toBe(0);
  const content = await frameOf(page)
    .locator("html")
    .evaluate((root) => root.getBoundingClientRect().height);
  await expect.poll(() => heightOf(page)).toBeCloseTo(content, -1);
  // The browser blocks third-party cookies: it keeps only those that are kept apart for each site.
  const kept = await frameOf(page)
    .locator("html")
    .evaluate(({ ownerDocument }) => {
      ownerDocument.cookie = "plain=1; SameSite=None; Secure";
      ownerDocument.cookie = "apart=1; SameSite=None; Secure; Partitioned";
      return ownerDocument.cookie;
    });
  expect(kept).toBe("apart=1");
  await frameOf(page).getByRole("link", { name: "Create key" }).first().click();
  await frameOf(page).getByLabel("Name").fill(`From ${path}`);
  await frameOf(page)
    .getByRole("button", { name: /Create/ })
    .click();
  await frameOf(page).getByLabel("Secret key").first().waitFor();
  expect(errors).toEqual([]);
  await page.close();
});

it("Another site cannot show the link in a frame", async () => {
  const { url } = (await (await fetch(`${app.url}/portal-url?page=/keys`)).json()) as { url: string };
  const page = await browser.newPage();
  const foreign = await startService(
    {
      "page.mjs": `import { createServer } from "node:http";
createServer((req, res) => res.setHeader("Content-Type", "text/html").end('<iframe src="${url}"></iframe>')).listen(process.env.PORT, "127.0.0.1");`,
    },
    withNode("page.mjs"),
  );
  await page.goto(foreign.url);
  await page.waitForTimeout(1000);
  const framed = page.frames()[1];
  expect(framed?.url() ?? "").not.toContain("/keys");
  expect((await fetch(url)).status).toBe(200);
  await page.close();
});
