import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { dayMs, dayStart, hourMs, iso } from "../src/time/clock.ts";
import { startChromium } from "../test/browser/chromium.ts";
import { startDemo } from "../test/node/demo.ts";
import { root } from "./root.ts";

// `npm run pictures` replaces the screenshots in the README and the documentation. The new screenshots show a newly created demo account.

const folder = join(root, "docs", "pictures");
const viewport = { width: 1280, height: 860 };

const [demo, browser] = await Promise.all([startDemo(), startChromium()]);
const at = (path: string) => `http://localhost:${demo.port}${path}`;
const send = (method: string, path: string, body?: object) =>
  fetch(at(`/api/v1${path}`), {
    method,
    headers: { Authorization: `Bearer ${demo.key}`, "Content-Type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });

try {
  mkdirSync(folder, { recursive: true });
  // The demo account has no requests of the current hour, so send some.
  for (let count = 0; count < 40; count++) await send("GET", count % 9 === 0 ? "/tasks/tsk_1" : "/tasks");
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const picture = async (
    name: string,
    path: string,
    colorScheme: "light" | "dark",
    go: (page: Page) => Promise<unknown> = async () => {},
  ) => {
    const page = await browser.newPage({ viewport, colorScheme });
    await page.goto(at(path));
    await go(page);
    await page.screenshot({ path: join(folder, `${name}.png`) });
    await page.close();
    console.log(`docs/pictures/${name}.png`);
  };
  const noon = dayStart(Date.now()) - dayMs / 2;
  const hour = new URLSearchParams({ window: "30d", from: iso(noon), to: iso(noon + hourMs) });
  const firstRow = async (page: Page) => {
    await page.locator(".activity tbody a").first().click();
    await page.locator("#side h2").first().waitFor();
    await page.evaluate("document.querySelector('.log').scrollIntoView()");
  };
  await picture("overview", "/", "light");
  await picture("overview-dark", "/", "dark");
  await picture("usage", `/usage?${hour}`, "light");
  await picture("refused", `/activity?status=429&${hour}`, "light", firstRow);
  await picture("delivery", "/webhooks", "light", async (page) => {
    await page.getByRole("link", { name: "http://localhost:4000/fail" }).click();
    await page.getByRole("link", { name: "task.updated" }).first().click();
    await page.getByRole("heading", { name: "Attempts" }).waitFor();
  });
  await picture("reference", "/docs/api/createTask", "dark");
} finally {
  await Promise.all([browser.close(), demo.stop()]);
}
