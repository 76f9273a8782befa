import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Demo, startDemo } from "../node/demo.ts";
import { problemsOf } from "./axe.ts";
import { startChromium } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Tasks that people open the overview for, with the demo account of `npm start`. Each task starts on the overview, and takes at most a few
// clicks.

let demo: Demo;
let browser: Browser;
let ada: Person;
let page: Page;
let clicks = 0;
const at = (path = "/") => `http://localhost:${demo.port}${path}`;

beforeAll(async () => {
  [demo, browser] = await Promise.all([startDemo("--sign-in"), startChromium()]);
  ada = await person(browser);
  await join(ada.page, demo.setup, "Ada", "ada@example.com");
  await ada.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(at()).origin });
  ada.page.on("dialog", (dialog) => dialog.accept());
  page = ada.page;
  await page.goto(at("/keys/new"));
  await page.getByLabel("Name").fill("Old laptop");
  await button("Create key").click();
  await link("View the key").click();
  await link("Revoke").click();
  await button("Revoke").click();
  await page.getByText("Requests with this key are refused").waitFor();
});

afterAll(async () => {
  await Promise.all([browser?.close(), demo?.stop()]);
});

beforeEach(async () => {
  page = ada.page;
  await page.goto(at());
  clicks = 0;
});

async function click(what: Locator): Promise<void> {
  clicks++;
  await what.click();
}

const link = (name: string | RegExp, within = "main") => page.locator(within).getByRole("link", { name, exact: true }).first();
const button = (name: string) => page.getByRole("button", { name, exact: true });

it("Making a key and calling the API takes at most four clicks", async () => {
  await click(link("API Keys", "nav.main"));
  await click(link("Create key"));
  await page.keyboard.type("Courier");
  await click(button("Create key"));
  await click(button("Copy"));
  await page.getByText("Copied.").waitFor();
  const key = (await page.evaluate("navigator.clipboard.readText()")) as string;
  const command = (await page.getByLabel("In curl", { exact: true }).textContent()) ?? "";
  const [, url = ""] = /curl "?([^\s"]+)/.exec(command) ?? [];
  expect((await fetch(url, { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200);
  await page.getByText("The first request is here").waitFor();
  expect(clicks).toBeLessThanOrEqual(4);
});

/** Moves the focus to an element with the Tab key alone, and presses Enter there. */
async function pressEnterOn(what: Locator): Promise<void> {
  clicks++;
  await what.waitFor();
  for (let tabs = 0; tabs < 200; tabs++) {
    if (await what.evaluate((element) => element.matches(":focus"))) return page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
  }
  throw new Error(`The Tab key does not reach ${what}.`);
}

describe.each([
  ["pointer", click],
  ["keyboard", pressEnterOn],
])("With the %s, it takes at most three steps from the overview", (_, step) => {
  afterEach(() => expect(clicks).toBeLessThanOrEqual(3));

  it("to find which key got 429s yesterday, and why", async () => {
    await step(page.getByText("Biggest change").getByRole("link", { name: "Mobile app" }));
    await page.waitForURL(/status=429/);
    await step(page.locator(".activity tbody a").first());
    const request = page.locator("main");
    await request.getByRole("heading", { name: "Why this was refused" }).waitFor();
    expect(await request.textContent()).toMatch(/limit is 2,000 an hour/);
    await request.getByRole("link", { name: "Raise the limit" }).click();
    expect(await page.getByLabel("Hourly limit").inputValue()).toBe("2000");
  });

  it("to rotate a key without an outage", async () => {
    await step(link("Nightly export"));
    await step(link("Rotate"));
    await step(button("Rotate"));
    await page.getByText("The old secret works until the overlap ends.").waitFor();
  });

  it("to see why a webhook failed, and to send the event again", async () => {
    await step(page.getByLabel("What needs attention").getByRole("link", { name: "http://localhost:4000/fail" }));
    await page.getByText(/^Failing since/).waitFor();
    // After a minute, the demo has also tried to reach the receiver of this machine.
    await page.getByText(/The receiver responded with 500|The connection failed/).waitFor();
    await step(page.locator("#latest-deliveries tbody a").first());
    await step(button("Redeliver"));
    await page.getByRole("status").filter({ hasText: "This is the new delivery." }).waitFor();
  });

  it("to see how much of each limit is left", async () => {
    await step(link("Rate Limit Usage"));
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    expect(await page.locator("#own-part").textContent()).toMatch(/Mobile app.*2,000/);
  });

  it("to see who revoked a key", async () => {
    await step(link("API Keys", "nav.main"));
    await step(link("Old laptop"));
    await page.getByText(/revoked by Ada, \d+ seconds? ago/).waitFor();
  });
});

it("A page of the documentation sends a request as a key, without its secret", async () => {
  await page.goto(at("/docs/api/listTasks"));
  await page.getByLabel("Send as").selectOption({ label: "Mobile app" });
  await click(button("Send request"));
  await page.getByLabel("Response").filter({ hasText: "200 OK" }).waitFor();
  // A rotation ends the temporary secret. The page gets another one for the next request.
  const other = await ada.context.newPage();
  await other.goto(at("/keys"));
  await other.getByRole("link", { name: "Mobile app", exact: true }).click();
  await other.getByRole("link", { name: "Rotate", exact: true }).click();
  await other.getByRole("button", { name: "Rotate", exact: true }).click();
  await other.getByText("The old secret works until the overlap ends.").waitFor();
  for (const status of ["401 Unauthorized", "200 OK"]) {
    await button("Send request").click();
    await page.getByLabel("Response").filter({ hasText: status }).waitFor();
  }
  await other.close();
  await page.goto(at("/settings/audit?action=key.temporary_secret_made"));
  await page.getByText("key.temporary_secret_made").first().waitFor();
  expect(await page.locator("main").textContent()).toContain("Mobile app");
});

it("The time zone is that of the person, on each of their screens", async () => {
  await button("local time").click();
  await ada.context.clearCookies({ name: "zone" });
  await page.goto(at());
  expect(await page.locator("html").getAttribute("data-zone")).toBe("local");
  await button("UTC").click();
});

it("Inviting a viewer and removing them takes at most five clicks", async () => {
  await click(link("Settings", "nav.main"));
  await page.getByLabel("Email address").fill("vera@example.com");
  await click(button("Invite"));
  await page.getByText("with the role viewer").waitFor();
  const vera = await person(browser);
  await join(vera.page, (await page.getByLabel("Invitation link").textContent()) ?? "", "Vera");
  await click(link("Settings", "nav.main"));
  await click(page.getByRole("link", { name: "Remove Vera" }));
  await click(page.getByRole("button", { name: /^Remove/ }));
  await page.getByRole("status").filter({ hasText: "was removed" }).waitFor();
  expect(clicks).toBeLessThanOrEqual(5);
});

it("Finding out how to verify a signature in Python takes at most two clicks", async () => {
  await page.keyboard.press("Control+k");
  await page.keyboard.type("verify signature python");
  await click(page.getByRole("option", { name: /Webhooks: Verify what arrives/ }));
  await page.getByRole("heading", { level: 2, name: "Verify what arrives" }).waitFor();
  expect(await page.locator("article").textContent()).toContain("hmac.compare_digest");
  expect(clicks).toBeLessThanOrEqual(2);
});

it("The results under the search field pass axe, and so does a search without results", async () => {
  await page.keyboard.press("Control+k");
  await page.keyboard.type("rate");
  await page.getByRole("option", { name: "Limits" }).waitFor();
  expect(await problemsOf(page)).toEqual([]);
  await page.keyboard.type(" zzzz");
  await page.getByRole("option", { name: "No results" }).waitFor();
  expect(await problemsOf(page)).toEqual([]);
});
