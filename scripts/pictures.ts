import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { startChromium } from "../test/browser/chromium.ts";
import { copyProject, freePort, removeProject } from "../test/node/project.ts";
import { root } from "./root.ts";

// `npm run pictures` replaces the screenshots in the README and the documentation. The new screenshots show a newly created demo account.

const folder = join(root, "docs", "pictures");
const viewport = { width: 1280, height: 860 };

/** Starts a copy of the project with `npm start`. Returns the demo key of the copy, and a function that stops the copy. */
async function start(copy: string, port: number): Promise<{ key: string; stop(): Promise<void> }> {
  const child = spawn("npm", ["start"], {
    cwd: copy,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  let said = "";
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`npm start exited unexpectedly (${code}):\n${said}`)));
    child.stdout.on("data", (chunk) => {
      said += chunk;
      if (/^Ready$/m.test(said)) resolve();
    });
  });
  const stop = async () => {
    process.kill(-(child.pid ?? 0), "SIGINT");
    await ended;
  };
  return { key: /^Demo API key: (\S+)$/m.exec(said)?.[1] ?? "", stop };
}

const port = await freePort();
const copy = copyProject();
const worker = await start(copy, port);
const browser = await startChromium();
const at = (path: string) => `http://localhost:${port}${path}`;
const api = (method: string, path: string, body?: object) =>
  fetch(at(`/api/v1${path}`), {
    method,
    headers: { Authorization: `Bearer ${worker.key}`, "Content-Type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });

try {
  mkdirSync(folder, { recursive: true });
  // The screenshots show a webhook and requests of the current hour, so create the webhook and send the requests here.
  await api("POST", "/webhooks", {
    url: at("/nothing"),
    description: "Tells the warehouse",
    event_types: ["task.created", "task.completed"],
  });
  for (let count = 0; count < 40; count++) await api("GET", count % 9 === 0 ? "/tasks/tsk_1" : "/tasks");
  await api("POST", "/tasks", { title: "Review the gripper firmware" });
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const picture = async (name: string, path: string, colorScheme: "light" | "dark", go: (page: Page) => Promise<void> = async () => {}) => {
    const page = await browser.newPage({ viewport, colorScheme });
    await page.goto(at(path));
    await go(page);
    await page.screenshot({ path: join(folder, `${name}.png`) });
    await page.close();
    console.log(`docs/pictures/${name}.png`);
  };
  await picture("overview", "/", "light");
  await picture("overview-dark", "/", "dark");
  await picture("key", "/keys", "light", (page) => page.getByRole("link", { name: "Production backend" }).click());
  await picture("refused", "/activity?status=404", "light", (page) => page.locator("tbody a").first().click());
} finally {
  await browser.close();
  await worker.stop();
  removeProject(copy);
}
