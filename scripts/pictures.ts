import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startChromium } from "../test/browser/chromium.ts";
import { startDemo } from "../test/node/demo.ts";
import { root } from "./root.ts";

// `npm run pictures` replaces the screenshot in the README. The new one shows a newly created demo account.

const folder = join(root, "docs", "pictures");
const viewport = { width: 1280, height: 860 };

const [demo, browser] = await Promise.all([startDemo(), startChromium()]);
const at = (path: string) => `http://localhost:${demo.port}${path}`;

try {
  mkdirSync(folder, { recursive: true });
  // The demo account has no requests of the current hour, so send some.
  for (let count = 0; count < 40; count++)
    await fetch(at(count % 9 === 0 ? "/api/v1/tasks/tsk_1" : "/api/v1/tasks"), { headers: { Authorization: `Bearer ${demo.key}` } });
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const page = await browser.newPage({ viewport });
  await page.goto(at("/"));
  await page.screenshot({ path: join(folder, "overview.png") });
} finally {
  await Promise.all([browser.close(), demo.stop()]);
}
