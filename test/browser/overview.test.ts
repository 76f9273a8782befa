import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { startChromium } from "./chromium.ts";

// The overview of a laptop, as a browser sees it.

const elsewhere = "rebound.example";
let worker: RunningWorker;
let browser: Browser;
const at = (host: string, path = "/") => `http://${host}:${worker.port}${path}`;

beforeAll(async () => {
  [worker, browser] = await Promise.all([startWorker(), startChromium([elsewhere])]);
});

afterAll(async () => {
  await Promise.all([browser?.close(), worker?.stop()]);
});

async function open<Result>(url: string, look: (page: Page, status: number) => Promise<Result>): Promise<Result> {
  const page = await browser.newPage();
  try {
    const response = await page.goto(url);
    return await look(page, response?.status() ?? 0);
  } finally {
    await page.close();
  }
}

describe("The overview", () => {
  it("opens for everyone at the machine: by its address, by a link of its own and by a script of its own page", async () => {
    for (const host of ["localhost", "127.0.0.1"])
      await open(at(host), async (page, status) => {
        expect([host, status, await page.locator("h1").textContent()]).toEqual([host, 200, "Overview"]);
        await page.locator("a.brand").click();
        expect(await page.locator("h1").textContent()).toBe("Overview");
      });
  });

  it("stays closed to a page of elsewhere whose name leads here, with any headers of its script", async () => {
    await open(at(elsewhere), async (page, status) => {
      expect([status, await page.locator("h1").textContent()]).toEqual([403, "The overview is closed"]);
    });
    const local = at("localhost");
    const page = await browser.newPage();
    // What its own server has sent before its name was pointed here.
    await page.route("**/attack", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Attack</h1>" }));
    await page.goto(at(elsewhere, "/attack"));
    const tried = await page.evaluate(
      async ({ url, local }) => {
        const headers: Record<string, string>[] = [
          {},
          { "MF-Original-URL": local },
          { "MF-Original-URL": local, "Sec-Fetch-Site": "none" },
          { "MF-Original-URL": local, "sec-fetch-site": "same-origin", "Sec-Fetch-Mode": "navigate" },
          { "MF-Original-URL": local, "X-Forwarded-Host": "localhost", Host: "localhost" },
        ];
        const ask = async (init: RequestInit) => {
          const response = await fetch(url, init);
          return `${response.status} ${(await response.text()).includes("Acme")}`;
        };
        return Promise.all(headers.map((each) => ask({ headers: each })));
      },
      { url: at(elsewhere), local },
    );
    await page.close();
    expect(tried).toEqual(Array(5).fill("403 false"));
  });

  it("stays closed to visitors who follow a link of another site", async () => {
    const body = `<a href="${at("localhost")}">go</a>`;
    const page = await browser.newPage();
    await page.route("**/lure", (route) => route.fulfill({ contentType: "text/html", body }));
    try {
      await page.goto(at(elsewhere, "/lure"));
      await page.locator("a").click();
      await page.waitForLoadState();
      expect(await page.locator("h1").textContent()).toBe("The overview is closed");
    } finally {
      await page.close();
    }
  });
});

describe("A page", () => {
  it.each(["/", "/nothing/here", `/${"long".repeat(60)}`])("does not scroll sideways at 320 pixels: %s", async (path) => {
    const page = await browser.newPage({ viewport: { width: 320, height: 640 } });
    try {
      await page.goto(at("localhost", path));
      const widths = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]");
      expect(widths).toEqual([320, 320]);
    } finally {
      await page.close();
    }
  });
});

describe("The name of the account", () => {
  it("and its tags are whole at 360 pixels", async () => {
    await worker.sql("UPDATE accounts SET sample_until = 32503680000000");
    const page = await browser.newPage({ viewport: { width: 360, height: 640 } });
    try {
      await page.goto(at("localhost", "/"));
      await page.getByText("Sample data", { exact: true }).waitFor();
      const ends = await page.evaluate(`[...document.querySelectorAll(".where > *")].map((part) => part.getBoundingClientRect().right)`);
      expect(Math.max(...(ends as number[]))).toBeLessThanOrEqual(360);
    } finally {
      await page.close();
      await worker.sql("UPDATE accounts SET sample_until = NULL");
    }
  });
});

describe("The usage page", () => {
  it("moves by itself, keeps open what was opened, and stands still while it is paused", async () => {
    const ask = () => worker.api("GET", "/me");
    await ask();
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await open(at("localhost", "/usage?window=24h"), async (page) => {
      const total = page.locator(".figure .value").first();
      await page.locator("#requests-part summary").click();
      await page.getByRole("heading", { level: 1 }).hover();
      const before = Number(await total.textContent());
      await ask();
      await expect.poll(async () => Number(await total.textContent()), { timeout: 15_000 }).toBe(before + 1);
      expect(await page.locator("#requests-part details").getAttribute("open")).not.toBeNull();
      await page.getByRole("button", { name: "Pause" }).click();
      await page.getByRole("heading", { level: 1 }).hover();
      await ask();
      await page.waitForTimeout(9000);
      expect(Number(await total.textContent())).toBe(before + 1);
      await page.getByRole("button", { name: "Go on" }).click();
      await expect.poll(async () => Number(await total.textContent()), { timeout: 15_000 }).toBe(before + 2);
    });
  });
});

describe("A preset of scopes", () => {
  it("ticks its boxes, and leaves what was typed", async () => {
    await open(at("localhost", "/keys/new"), async (page) => {
      await page.getByLabel("Name", { exact: true }).fill("Half typed");
      await page.getByRole("link", { name: "Webhooks", exact: true }).last().click();
      const ticked = page.locator('input[name="scopes"]:checked');
      expect(await ticked.evaluateAll((boxes) => boxes.map((box) => box.getAttribute("value")))).toEqual([
        "webhooks:read",
        "webhooks:write",
      ]);
      expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Half typed");
    });
  });
});

describe("What was a while ago", () => {
  it("goes on with the clock while the page stays open", async () => {
    const page = await browser.newPage();
    try {
      await fetch(at("localhost", "/api/v1/me"), { headers: { Authorization: `Bearer ${worker.key}` } });
      await new Promise((resolve) => setTimeout(resolve, 2000));
      await page.clock.install();
      await page.goto(at("localhost", "/activity"));
      const used = page.locator("table time.age").first();
      const before = await used.textContent();
      await page.clock.fastForward("02:00:00");
      expect(await used.textContent()).not.toBe(before);
      expect(await used.textContent()).toMatch(/hours ago|days ago/);
    } finally {
      await page.close();
    }
  });
});

describe("A secret that is shown once", () => {
  it("is selected, and never said to be copied, where the browser does not let it be copied; leaving is asked about", async () => {
    const page = await browser.newPage();
    try {
      await page.addInitScript("navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError'))");
      await page.goto(at("localhost", "/keys/new"));
      await page.getByLabel("Name", { exact: true }).fill("Uncopied");
      await page.getByRole("button", { name: "Create key" }).click();
      const secret = await page.getByLabel("Secret key", { exact: true }).textContent();
      await page.getByRole("button", { name: "Copy" }).click();
      await page.getByText("press Ctrl+C").waitFor();
      expect(await page.evaluate("getSelection().toString().trim()")).toBe(secret?.trim());
      expect(await page.getByText("Copied.", { exact: true }).count()).toBe(0);
      const asked = page.waitForEvent("dialog");
      const leaving = page.getByRole("link", { name: "Overview", exact: true }).click();
      const dialog = await asked;
      expect(dialog.type()).toBe("beforeunload");
      await dialog.accept();
      await leaving;
      await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    } finally {
      await page.close();
    }
  });

  it("is made once, however fast its form is pressed twice", async () => {
    const page = await browser.newPage();
    try {
      await page.goto(at("localhost", "/keys/new"));
      await page.getByLabel("Name", { exact: true }).fill("Pressed twice");
      await page.getByRole("button", { name: "Create key" }).dblclick();
      await page.getByRole("heading", { level: 1, name: "The key is made" }).waitFor();
      expect(await page.getByLabel("Secret key", { exact: true }).textContent()).toMatch(/^dvo_/);
    } finally {
      await page.close({ runBeforeUnload: false });
    }
  });
});
