import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { useBrowser } from "./chromium.ts";

// Opens the documentation in a browser that is not signed in.

const { worker, browser } = useBrowser({ signIn: true });
let page: Page;
const at = (path: string) => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  page = await browser.newPage();
});

const waitForResponse = (text: string) => page.getByLabel("Response").filter({ hasText: text }).waitFor();
const readResponse = () => page.getByLabel("Response").textContent();

describe("The documentation", () => {
  it("requires no sign-in for its pages and its search, unlike the overview", async () => {
    await page.goto(at("/docs"));
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Documentation");
    expect(await page.getByRole("link", { name: "Sign in" }).count()).toBe(1);
    await page.getByLabel("Search the documentation").fill("create task");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("link", { name: "Create a task" }).click();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Create a task");
    await page.getByRole("link", { name: "Overview", exact: true }).click();
    expect(new URL(page.url()).pathname).toBe("/login");
  });
});

describe("A page of the documentation", () => {
  it("prints only its text, and cuts off no line of code", async () => {
    const printed = await browser.newPage({ viewport: { width: 700, height: 900 } });
    await printed.emulateMedia({ media: "print" });
    for (const path of ["/docs/api/createTask", "/docs/guides/webhooks"]) {
      await printed.goto(at(path));
      const shown = printed.locator("nav, button, input, textarea, footer").filter({ visible: true });
      expect([path, await shown.allTextContents()]).toEqual([path, []]);
      const cut = await printed.evaluate(
        "[...document.querySelectorAll('.code')].filter((box) => box.scrollWidth > box.clientWidth + 1).length",
      );
      expect([path, cut]).toEqual([path, 0]);
    }
    await printed.close();
  });
});

describe("The console of the documentation", () => {
  it("reports a missing key without a request, and shows the response to an invalid key", async () => {
    await page.goto(at("/docs/api/createTask"));
    await page.getByRole("button", { name: "Send request" }).click();
    expect(await page.getByRole("alert").textContent()).toContain("API key is missing");
    await page.getByLabel("API key").fill("dvo_nobody");
    await page.getByRole("button", { name: "Send request" }).click();
    await waitForResponse("invalid_key");
    expect(await readResponse()).toMatch(/^401 Unauthorized\nafter \d+ ms\n[\s\S]*www-authenticate: Bearer/);
  });

  it("shows the response, its headers and its time, and the same request as curl without the key", async () => {
    await page.goto(at("/docs/api/createTask"));
    await page.getByLabel("API key").fill(worker.key);
    await page.getByLabel("Body").fill('{"title": "From the console"}');
    await page.getByLabel("Idempotency-Key").fill("console-1");
    await page.getByRole("button", { name: "Send request" }).click();
    await waitForResponse("201 Created");
    const shown = (await readResponse()) ?? "";
    expect(shown).toContain('"title": "From the console"');
    expect(shown).toMatch(/x-ratelimit-remaining: \d+/);
    const command = (await page.getByLabel("The same in curl").textContent()) ?? "";
    expect(command).toContain('-H "Authorization: Bearer $API_KEY"');
    expect(command).toContain("-H 'Idempotency-Key: console-1'");
    const stored = JSON.stringify(
      await page.evaluate("({ ...localStorage, ...sessionStorage, url: location.href, cookie: document.cookie })"),
    );
    expect([command.includes(worker.key), stored.includes(worker.key), shown.includes(worker.key)]).toEqual([false, false, false]);
  });

  it("sends the id in the path, and shows a 404", async () => {
    await page.goto(at("/docs/api/getTask"));
    await page.getByLabel("API key").fill(worker.key);
    await page.getByLabel("id", { exact: false }).last().fill("tsk_1");
    await page.getByRole("button", { name: "Send request" }).click();
    await waitForResponse("not_found");
    expect(await readResponse()).toMatch(/^404 Not Found/);
  });
});
