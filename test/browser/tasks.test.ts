import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { type Demo, startDemo } from "../node/demo.ts";
import { problemsOf } from "./axe.ts";
import { startChromium } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Five tasks that people open the overview for, with the demo account of `npm start`. Each task starts on the overview, and takes at most a few
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

it("Finding why a customer got a 429 yesterday at noon takes at most three clicks", async () => {
  await click(page.getByText("Biggest change").getByRole("link", { name: "Mobile app" }));
  await click(page.locator(".activity tbody a").first());
  const request = page.locator("main");
  await request.getByRole("heading", { name: "Why this was refused" }).waitFor();
  expect(await request.textContent()).toMatch(/limit is 2,000 an hour/);
  expect(clicks).toBeLessThanOrEqual(3);
  await request.getByRole("link", { name: "Raise the limit" }).click();
  expect(await page.getByLabel("Hourly limit").inputValue()).toBe("2000");
});

it("Finding why a webhook failed and sending an event again takes at most three clicks", async () => {
  await click(page.getByLabel("What needs attention").getByRole("link", { name: "http://localhost:4000/fail" }));
  await page.getByText(/^Failing since/).waitFor();
  // After a minute, the demo has also tried to reach the receiver of this machine.
  await page.getByText(/The receiver responded with 500|The connection failed/).waitFor();
  await click(page.locator("#latest-deliveries tbody a").first());
  await click(button("Redeliver"));
  await page.getByRole("status").filter({ hasText: "This is the new delivery." }).waitFor();
  expect(clicks).toBeLessThanOrEqual(3);
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
