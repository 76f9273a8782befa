import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { useBrowser } from "./chromium.ts";

// The page of the request log, as a person uses it with the mouse and with the keyboard.

const { worker, browser } = useBrowser();
const at = (path: string) => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  for (const path of ["/me", "/tasks/none", "/keys"]) await worker.api("GET", path);
  const longName = "A name that is as long as the name of a key can be: ".padEnd(100, "0123456789");
  const { secret_key: key } = await worker.api("POST", "/keys", { name: longName });
  await fetch(at(`/api/v1/tasks/${"x".repeat(300)}`), { headers: { Authorization: `Bearer ${key}` } });
  await vi.waitFor(async () => expect((await worker.api("GET", "/activity?status=404")).data).toHaveLength(2), {
    timeout: 5000,
    interval: 100,
  });
});

/** Opens the log in a new page, and closes the page after `work`. Fails if the page reports an error. */
async function onLog(work: (page: Page) => Promise<void>, { path = "/activity", width = 1280, zone = "UTC" } = {}): Promise<void> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, timezoneId: zone });
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  try {
    await page.goto(at(path));
    await work(page);
    expect(errors).toEqual([]);
  } finally {
    await page.close();
  }
}

describe("The log", () => {
  it.each([1280, 1440])("has rows of one line at %i pixels, also with the longest names and paths", async (width) => {
    await onLog(
      async (page) => {
        const heights = (await page.evaluate(
          "[...document.querySelectorAll('.activity tbody tr')].map((row) => row.offsetHeight)",
        )) as number[];
        expect(heights.length).toBeGreaterThan(3);
        expect(heights.filter((height) => height > 37)).toEqual([]);
      },
      { width },
    );
  });

  it("shows times of the list and of a request in local time, and copies the id of the request", async () => {
    await onLog(
      async (page) => {
        await page.getByRole("button", { name: "local time" }).click();
        const time = page.locator("time.log-time").first();
        const there = new Date(Date.parse((await time.getAttribute("datetime")) ?? "") + 9 * 3_600_000).toISOString();
        expect(await time.textContent()).toContain(`${Number(there.slice(8, 10))} `);
        expect(await time.textContent()).toContain(there.slice(11, 19));
        expect(await page.getByRole("columnheader", { name: "When (UTC+9)" }).count()).toBe(1);
        const cut =
          "[...document.querySelectorAll('.activity :is(th, td)')].filter((cell) => cell.scrollWidth > cell.clientWidth && (cell.matches('thead *') || cell.querySelector('time'))).length";
        expect(await page.evaluate(cut)).toBe(0);
        // As cards, the rows have no heading that says the zone.
        await page.setViewportSize({ width: 390, height: 900 });
        expect(await page.evaluate("getComputedStyle(document.querySelector('.log-time'), '::after').content")).toContain("UTC+9");
        await page.setViewportSize({ width: 1280, height: 900 });
        expect(await page.evaluate("getComputedStyle(document.querySelector('.log-time'), '::after').content")).toBe("none");
        await page.locator(".activity a.whole").first().click();
        const moment = page.locator("main time.moment").first();
        await moment.waitFor();
        expect(await moment.textContent()).toMatch(/ UTC\+9$/);
        await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
        await page.locator("main").getByRole("button", { name: "Copy" }).first().click();
        await page.locator("main").getByText("Copied.").first().waitFor();
      },
      { zone: "Asia/Tokyo" },
    );
  });

  it("is read with J, K and Enter", async () => {
    await onLog(async (page) => {
      const focused = () => page.evaluate("document.activeElement.closest('tr')?.dataset.id ?? null") as Promise<string | null>;
      await page.keyboard.press("j");
      const first = await focused();
      await page.keyboard.press("j");
      const second = await focused();
      expect(new Set([first, second, null]).size).toBe(3);
      await page.keyboard.press("k");
      expect(await focused()).toBe(first);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Trace" }).waitFor();
      expect(new URL(page.url()).pathname).toBe(`/activity/${first}`);
    });
  });

  it("leads to a page of the request if the script is off", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(at("/activity"));
    await page.getByRole("link", { name: "/api/v1/tasks/none" }).click();
    expect(new URL(page.url()).pathname).toMatch(/^\/activity\/req_/);
    await page.getByRole("heading", { name: "Trace" }).waitFor();
    await context.close();
  });
});
