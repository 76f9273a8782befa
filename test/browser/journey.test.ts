import { createServer, type Server } from "node:http";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { listen } from "../node/listen.ts";
import { useBrowser } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Manages keys and webhooks in the overview in three ways: with a mouse, with only a keyboard, and without JavaScript.

const { worker, browser } = useBrowser({ signIn: true });
let receiver: Server;
let ada: Person;
let codes: string[];
let hook: string;
const at = (path = "/") => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  // The receiver rejects the first event and accepts all others, so that one event can be redelivered.
  let requests = 0;
  receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(requests++ === 0 ? 410 : 200).end();
  });
  hook = `http://localhost:${await listen(receiver)}/hook`;
  ada = await person(browser);
  codes = await join(ada.page, worker.setup, "Ada", "ada@example.com");
});

afterAll(() => void receiver?.close());

/** The actions that a test performs on a page. */
interface Input {
  /** Enters `text` into the field that has this label. */
  fill(label: string, text: string): Promise<void>;
  /** Presses the button or the link that has this name. */
  press(name: string): Promise<void>;
}

const byMouse = (page: Page): Input => ({
  fill: (label, text) => page.getByLabel(label, { exact: true }).fill(text),
  press: (name) =>
    page
      .locator("main, header")
      .getByRole("button", { name, exact: true })
      .or(page.locator("main, header").getByRole("link", { name, exact: true }))
      .first()
      .click(),
});

/** Uses a page with the keyboard only: moves with Tab, types text, and presses buttons and links with Enter. */
const byKeyboard = (page: Page): Input => {
  const reach = async (name: string) => {
    for (let tabs = 0; tabs < 150; tabs++) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(
        `(() => {
          const { activeElement: at } = document;
          return at?.labels?.[0]?.innerText ?? at?.getAttribute("aria-label") ?? at?.innerText ?? "";
        })()`,
      );
      if (String(focused).trim() === name) return;
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
      await page.keyboard.press("Enter");
      await page.waitForLoadState();
    },
  };
};

const waitForHeading = (page: Page, name: string | RegExp) => page.getByRole("heading", { level: 1, name }).waitFor();
const waitForStatus = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text }).first().waitFor();
const secretOn = async (page: Page) => (await page.getByLabel("Secret key", { exact: true }).textContent())?.trim() ?? "";

/** Reloads the page until its `main` element contains the text. */
const waitForText = (page: Page, text: string, timeout: number) =>
  expect
    .poll(
      async () => {
        await page.reload();
        return page.locator("main").textContent();
      },
      { timeout },
    )
    .toContain(text);

/** Creates and uses a key, rotates the key, uses both secrets, and revokes the key. After each step, checks the content of the pages. */
async function createRotateAndRevokeKey(page: Page, { fill, press }: Input, name: string): Promise<void> {
  await page.goto(at("/keys"));
  await press("Create key");
  await waitForHeading(page, "Create a key");
  await fill("Name", name);
  await press("Create key");
  await waitForHeading(page, "Copy your key now");
  const first = await secretOn(page);
  expect(await worker.me(first)).toBe(200);
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
  await waitForHeading(page, name);
  await press("Rotate");
  await waitForHeading(page, `Rotate ${name}`);
  await press("Rotate");
  await waitForHeading(page, "Copy the new secret now");
  const second = await secretOn(page);
  expect([await worker.me(first), await worker.me(second), await worker.me(second)]).toEqual([200, 200, 200]);
  await page.goto(at("/keys"));
  await press(name);
  await waitForHeading(page, name);
  await waitForText(page, "2 with the new one (66.67%), 1 with the old one (33.33%)", 5000);
  await press("Revoke");
  await waitForHeading(page, `Revoke ${name}`);
  expect(await page.locator("main").textContent()).toContain("In use: 4 requests in the last hour");
  await press("Revoke");
  await waitForStatus(page, "Revoked.");
  expect([await worker.me(first), await worker.me(second)]).toEqual(["invalid_key", "revoked_key"]);
}

it("A member with a mouse can create, rotate and revoke a key, sign out, and sign in with the passkey", async () => {
  const { page } = ada;
  const input = byMouse(page);
  await createRotateAndRevokeKey(page, input, "By mouse");
  await input.press("Sign out");
  await waitForHeading(page, "Sign in");
  await input.press("Sign in with a passkey");
  await waitForHeading(page, "Overview");
}, 60_000);

it("A member with only a keyboard can create, rotate and revoke a key, copy its secret, and sign in with the passkey", async () => {
  const { page } = ada;
  const input = byKeyboard(page);
  await createRotateAndRevokeKey(page, input, "By keyboard");
  await page.goto(at("/keys/new"));
  await input.fill("Name", "Copied");
  await input.press("Create key");
  await waitForHeading(page, "Copy your key now");
  await input.press("Copy");
  await page.getByText(/Copied\.|press Ctrl\+C/).waitFor();
  await page.goto(at("/"));
  await input.press("Sign out");
  await waitForHeading(page, "Sign in");
  await input.press("Sign in with a passkey");
  await waitForHeading(page, "Overview");
}, 90_000);

it("A member without JavaScript can sign in with a recovery code, manage a key, and redeliver a failed event", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const input = byMouse(page);
  const signInWith = async (code: string | undefined) => {
    await page.goto(at("/login"));
    await input.press("Use a recovery code");
    await input.fill("Recovery code", code ?? "");
    await input.press("Sign in");
    await waitForHeading(page, "Overview");
  };
  await signInWith(codes[0]);
  await createRotateAndRevokeKey(page, input, "Without script");
  await page.goto(at("/webhooks"));
  await input.press("Add webhook");
  await input.fill("URL", hook);
  await page.getByRole("checkbox", { name: "task.created", exact: true }).check();
  await input.press("Add webhook");
  expect(await page.getByLabel("Signing secret", { exact: true }).textContent()).toMatch(/^whsec_/);
  await input.press("Go to the webhook");
  await input.press("Send test event");
  await waitForStatus(page, "test event");
  // The receiver rejects the first event with the status 410. This response disables the webhook.
  await waitForText(page, "This webhook is disabled. ", 8000);
  await input.press("Enable");
  await waitForStatus(page, "Enabled.");
  await input.press("Redeliver all");
  await page.getByRole("heading", { name: "1 event matches" }).waitFor();
  await input.press("Redeliver all");
  await expect
    .poll(
      async () => {
        await page.reload();
        return page.locator("main").textContent();
      },
      { timeout: 8000 },
    )
    .toContain("Attempted again: 1 event.");
  await input.press("Sign out");
  await waitForHeading(page, "Sign in");
  await signInWith(codes[1]);
  await context.close();
}, 90_000);
