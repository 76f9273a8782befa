import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { startChromium } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// The whole way of somebody who looks after keys: by mouse, by keyboard alone, and without script.

let worker: RunningWorker;
let browser: Browser;
let receiver: Server;
let ada: Person;
let codes: string[];
let hook: string;
const at = (path = "/") => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  // Takes events, but for the first: so that there is something to redeliver.
  let seen = 0;
  receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(seen++ === 0 ? 410 : 200).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  hook = `http://localhost:${(receiver.address() as AddressInfo).port}/hook`;
  [worker, browser] = await Promise.all([startWorker({ signIn: true }), startChromium()]);
  ada = await person(browser);
  codes = await join(ada.page, worker.setup, "Ada", "ada@example.com");
});

afterAll(async () => {
  receiver?.close();
  await Promise.all([browser?.close(), worker?.stop()]);
});

const me = async (secret: string) => {
  const response = await fetch(at("/api/v1/me"), { headers: { Authorization: `Bearer ${secret}` } });
  const body = (await response.json()) as { code?: string };
  return response.status === 200 ? 200 : body.code;
};

/** How somebody gets about on a page: to a field, and through a button or link. */
interface Hand {
  fill(label: string, text: string): Promise<void>;
  press(name: string): Promise<void>;
}

const byMouse = (page: Page): Hand => ({
  fill: (label, text) => page.getByLabel(label, { exact: true }).fill(text),
  press: (name) =>
    page
      .locator("main, header")
      .getByRole("button", { name, exact: true })
      .or(page.locator("main, header").getByRole("link", { name, exact: true }))
      .first()
      .click(),
});

/** With Tab, Enter and letters alone. */
const byKeyboard = (page: Page): Hand => {
  const reach = async (name: string) => {
    for (let tabs = 0; tabs < 150; tabs++) {
      await page.keyboard.press("Tab");
      const reached = await page.evaluate(
        "(() => { const { activeElement: at } = document; return at?.labels?.[0]?.innerText ?? at?.getAttribute('aria-label') ?? at?.innerText ?? ''; })()",
      );
      if (String(reached).trim() === name) return;
    }
    throw new Error(`the keyboard does not reach ${name} on ${page.url()}`);
  };
  return {
    async fill(label, text) {
      await reach(label);
      await page.keyboard.press("Control+A");
      await page.keyboard.type(text);
    },
    async press(name) {
      await reach(name);
      const before = page.url();
      await page.keyboard.press("Enter");
      await page.waitForLoadState();
      if (page.url() === before) await page.waitForTimeout(100);
    },
  };
};

const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { level: 1, name }).waitFor();
const said = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text }).first().waitFor();
const secretOn = async (page: Page) => (await page.getByLabel("Secret key", { exact: true }).textContent())?.trim() ?? "";

/** Makes a key, uses it, sees that, rotates it, sees the traffic of both secrets, revokes it. */
async function lifeOfKey(page: Page, { fill, press }: Hand, name: string): Promise<void> {
  await page.goto(at("/keys"));
  await press("Create key");
  await heading(page, "Create a key");
  await fill("Name", name);
  await press("Create key");
  await heading(page, "The key is made");
  const first = await secretOn(page);
  expect(await me(first)).toBe(200);
  await expect
    .poll(
      async () => {
        await page.goto(at("/activity"));
        return page.locator("tbody").filter({ hasText: name }).count();
      },
      { timeout: 5000 },
    )
    .toBe(1);
  await page.goto(at("/keys"));
  await press(name);
  await heading(page, name);
  await press("Rotate");
  await heading(page, `Rotate ${name}`);
  await press("Rotate");
  await heading(page, "The new secret");
  const second = await secretOn(page);
  expect([await me(first), await me(second), await me(second)]).toEqual([200, 200, 200]);
  await page.goto(at("/keys"));
  await press(name);
  await heading(page, name);
  await expect
    .poll(
      async () => {
        await page.reload();
        return page.locator("main").textContent();
      },
      { timeout: 5000 },
    )
    .toContain("2 with the new one (66.67%), 1 with the old one (33.33%)");
  await press("Revoke");
  await heading(page, `Revoke ${name}`);
  expect(await page.locator("main").textContent()).toContain("In use: 4 requests in the last hour");
  await press("Revoke");
  await said(page, "Revoked.");
  expect([await me(first), await me(second)]).toEqual(["invalid_key", "revoked_key"]);
}

it("By mouse: a key's life, then out and in again with the passkey", async () => {
  const { page } = ada;
  const hand = byMouse(page);
  await lifeOfKey(page, hand, "By mouse");
  await hand.press("Sign out");
  await heading(page, "Sign in");
  await hand.press("Sign in with a passkey");
  await heading(page, "Overview");
}, 60_000);

it("By keyboard alone: the same, and a copied secret", async () => {
  const { page } = ada;
  const hand = byKeyboard(page);
  await lifeOfKey(page, hand, "By keyboard");
  await page.goto(at("/keys/new"));
  await hand.fill("Name", "Copied");
  await hand.press("Create key");
  await heading(page, "The key is made");
  await hand.press("Copy");
  await page.getByText(/Copied\.|press Ctrl\+C/).waitFor();
  await page.goto(at("/"));
  await hand.press("Sign out");
  await heading(page, "Sign in");
  await hand.press("Sign in with a passkey");
  await heading(page, "Overview");
}, 90_000);

it("Without script: in with a recovery code, a key's life, a webhook whose failed event is redelivered, out, and in again", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const hand = byMouse(page);
  const enter = async (code: string | undefined) => {
    await page.goto(at("/login"));
    await hand.press("Use a recovery code");
    await hand.fill("Recovery code", code ?? "");
    await hand.press("Sign in");
    await heading(page, "Overview");
  };
  await enter(codes[0]);
  await lifeOfKey(page, hand, "Without script");
  await page.goto(at("/webhooks"));
  await hand.press("Add webhook");
  await hand.fill("URL", hook);
  await page.getByRole("checkbox", { name: "task.created", exact: true }).check();
  await hand.press("Add webhook");
  expect(await page.getByLabel("Signing secret", { exact: true }).textContent()).toMatch(/^whsec_/);
  await hand.press("Go to the webhook");
  await hand.press("Send test event");
  await said(page, "A test event is on its way");
  // The first is refused with 410, which disables the webhook.
  await expect
    .poll(
      async () => {
        await page.reload();
        return page.locator("main").textContent();
      },
      { timeout: 8000 },
    )
    .toContain("Disabled. ");
  await hand.press("Enable");
  await said(page, "Enabled.");
  await hand.press("Redeliver all");
  await page.getByRole("heading", { name: "1 event matches" }).waitFor();
  await hand.press("Redeliver all");
  await expect
    .poll(
      async () => {
        await page.reload();
        return page.locator("main").textContent();
      },
      { timeout: 8000 },
    )
    .toContain("Redelivered: 1 event of 1 attempted.");
  await hand.press("Sign out");
  await heading(page, "Sign in");
  await enter(codes[1]);
  await context.close();
}, 90_000);
