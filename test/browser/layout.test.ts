import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { dayMs, dayStart } from "../../src/lib/time/clock.ts";
import { listen } from "../node/listen.ts";
import { useBrowser } from "./chromium.ts";

// What the layout promises: marks that can be seen, nothing that moves on a slow machine, and charts that lead to their span.

const { worker, browser } = useBrowser();
let webhookId: string;
const at = (path: string) => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  const longName = "A name that is as long as the name of a key can be: ".padEnd(100, "0123456789");
  const { secret_key: key } = await worker.api("POST", "/keys", { name: longName });
  const webhook = { url: `http://localhost:9/${"path/".repeat(40)}`, description: longName, event_types: ["*"] };
  webhookId = (await worker.api("POST", "/webhooks", webhook)).id;
  for (const path of ["/me", "/tasks/none", `/tasks/${"x".repeat(300)}`])
    await fetch(at(`/api/v1${path}`), { headers: { Authorization: `Bearer ${key}` } });
  await vi.waitFor(async () => expect((await worker.api("GET", "/activity?status=404")).data).toHaveLength(2), {
    timeout: 5000,
    interval: 100,
  });
});

/** Opens a page, and closes it after `work`. */
async function onPage(path: string, options: Parameters<Browser["newPage"]>[0], work: (page: Page) => Promise<void>): Promise<void> {
  const page = await browser.newPage(options);
  try {
    await page.goto(at(path));
    await work(page);
  } finally {
    await page.close();
  }
}

/** Opens a page, and calls `work` with each width of the window. */
const atEachWidth = (path: string, widths: readonly number[], work: (page: Page, width: number) => Promise<void>): Promise<void> =>
  onPage(path, {}, async (page) => {
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await work(page, width);
    }
  });

it("A name that is cut off in a list begins with its first letters, and shows in full while its row has the focus", async () => {
  const name = "مفتاح التكامل مع العميل الكبير في الشرق الأوسط ".repeat(2).trim();
  await worker.api("POST", "/keys", { name });
  await onPage("/keys", { viewport: { width: 1280, height: 900 } }, async (page) => {
    const cell = '[...document.querySelectorAll("th.name bdi")].find((each) => each.textContent.startsWith("مفتاح"))';
    const isCutOff = () => page.evaluate(`${cell}.scrollWidth > ${cell}.clientWidth`);
    expect(await isCutOff()).toBe(true);
    const startsInView = `((of) => {
      const range = document.createRange();
      range.setStart(of.firstChild, 0);
      range.setEnd(of.firstChild, 3);
      const [letters, box] = [range.getBoundingClientRect(), of.closest("th").getBoundingClientRect()];
      return letters.left >= box.left && letters.right <= box.right;
    })(${cell})`;
    expect(await page.evaluate(startsInView)).toBe(true);
    await page.getByRole("link", { name }).focus();
    expect(await isCutOff()).toBe(false);
  });
});

it.each(["/", "/keys", "/limits", "/webhooks", "/activity", "/settings/audit", "/docs/api/createKey", "/docs/schemas/NewKey"])(
  "A list at 390 to 1280 pixels shows the name of each row, and does not make the page wider than the window: %s",
  async (path) => {
    await atEachWidth(path, [390, 660, 768, 900, 1024, 1100, 1200, 1280], async (page, width) => {
      const [overflow, names] = (await page.evaluate(
        `[document.documentElement.scrollWidth - document.documentElement.clientWidth,
            [...document.querySelectorAll('main table:is(.one-line, .activity) tbody :is(th, .name)')].flatMap((name) => {
              // As a card, a cell is as wide as its text.
              const isCard = getComputedStyle(name.parentElement).display === 'flex' && name.matches('td');
              return isCard ? [] : [name.getBoundingClientRect().width];
            })]`,
      )) as [number, number[]];
      expect([width, overflow, names.filter((each) => each < 120)]).toEqual([width, 0, []]);
    });
  },
);

it("The operator's page at 320 to 1280 pixels is as wide as the window, and no name has a letter a line", async () => {
  const token = /^OPERATOR_TOKEN="(.*)"$/m.exec(readFileSync(join(worker.folder, ".dev.vars"), "utf8"))?.[1] ?? "";
  await onPage("/operator", {}, async (page) => {
    await page.getByLabel("Operator token").fill(token);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "Most storage" }).waitFor();
    for (const width of [320, 390, 768, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const [overflow, names] = (await page.evaluate(
        `[document.documentElement.scrollWidth - document.documentElement.clientWidth,
        [...document.querySelectorAll('main tbody th')].map((name) => name.getBoundingClientRect().width)]`,
      )) as [number, number[]];
      expect(names.length).toBeGreaterThan(0);
      expect([width, overflow, names.filter((each) => each < 100)]).toEqual([width, 0, []]);
    }
  });
});

/** The marks of charts, each with the property that has its color, and the colors on which it lies. */
const marks: [selector: string, property: "fill" | "stroke", on: string[]][] = [
  ["served", "fill", ["panel"]],
  ["refused", "fill", ["panel"]],
  ["failed", "fill", ["panel"]],
  ["unreported", "fill", ["panel"]],
  ["line", "stroke", ["panel", "band"]],
  ["band", "stroke", ["panel"]],
  // The line of an earlier time crosses the bars. Each dash has an edge in the color of the panel.
  ["before", "stroke", ["panel"]],
  ["hatch", "stroke", ["served", "refused", "failed"]],
  ["zero", "stroke", ["panel"]],
];

it.each(["light", "dark"] as const)("Each mark of a chart has a contrast of 3:1 against what it lies on: %s", async (colorScheme) => {
  await onPage("/usage", { colorScheme }, async (page) => {
    const ratios = (await page.evaluate(`(${contrasts})(${JSON.stringify(marks)})`)) as { mark: string; on: string; ratio: number }[];
    expect(ratios.length).toBeGreaterThan(marks.length);
    expect(ratios.filter(({ ratio }) => ratio < 3)).toEqual([]);
  });
});

/** Runs in the page. Draws each color on a canvas, because CSS colors have many forms. */
const contrasts = `(marks) => {
  const chart = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  document.querySelector(".panel").append(chart);
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const colorOf = (name, property) => {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.setAttribute("class", name);
    chart.append(mark);
    return getComputedStyle(mark)[property];
  };
  const ground = (name) => name === "panel" ? getComputedStyle(document.querySelector(".panel")).backgroundColor : colorOf(name, "fill");
  return marks.flatMap(([mark, property, on]) => on.map((name) => {
    const [a, b] = [luminance(colorOf(mark, property)), luminance(ground(name))].sort((x, y) => y - x);
    return { mark, on: name, ratio: (a + 0.05) / (b + 0.05) };
  }));
}`;

const loaded = [
  "/",
  "/usage",
  "/activity",
  "/keys",
  "/keys/new",
  "/webhooks",
  "/settings",
  "/docs",
  "/docs/api/createTask",
  "/docs/guides/limits",
  "/docs/search?q=limit",
];
const widths = [320, 390, 1280];

/** Opens an empty page that notes its layout shifts. */
async function watchedPage(width: number): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 800 } });
  await page.addInitScript(`
    window.shifts = [];
    const boxOf = ({ node, previousRect, currentRect }) =>
      [(node?.cloneNode().outerHTML ?? node?.nodeName) + " from " + previousRect.x + ", " + previousRect.y + " to " + currentRect.x + ", " + currentRect.y];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
      if (!entry.hadRecentInput) shifts.push({ value: entry.value, boxes: entry.sources.flatMap(boxOf) });
    })).observe({ type: "layout-shift", buffered: true });
  `);
  return page;
}

/** Expects that at most a small part of the page has moved. The message names what did. */
async function expectNoShift(page: Page): Promise<void> {
  const shifts = (await page.evaluate("shifts")) as { value: number; boxes: string[] }[];
  expect(
    shifts.reduce((sum, { value }) => sum + value, 0),
    JSON.stringify(shifts, null, 2),
  ).toBeLessThanOrEqual(0.02);
}

/** Calls `work` with each width at the same time, because most of the time is spent waiting. */
const atOnce = (work: (width: number) => Promise<void>) => Promise.all(widths.map(work));

it.each(loaded)("Nothing moves while a page loads on a machine that is four times slower: %s", async (path) => {
  await atOnce(async (width) => {
    const page = await watchedPage(width);
    const session = await page.context().newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await page.goto(at(path));
    // The test needs this fixed wait to show that no content moves after the page has loaded.
    await page.waitForTimeout(500);
    await expectNoShift(page);
    await page.close();
  });
});

/**
 * Splits HTML into 24 pieces, and after the start of each list of options and after each label, because both grow with what follows.
 * Each piece ends before a tag, because a text that is cut moves on any page: its last word may need another line.
 */
function piecesOf(html: string): string[] {
  const size = html.length / 24;
  const even = Array.from({ length: 23 }, (_, index) => html.indexOf("<", (index + 1) * size));
  const growing = [...html.matchAll(/(?<=<select[^>]*>)<option|(?<=<\/label>)<(?:select|input)/g)].map(({ index }) => index);
  const cuts = [...new Set([...even, ...growing])].filter((cut) => cut > 0).toSorted((a, b) => a - b);
  return [0, ...cuts].map((cut, index) => html.slice(cut, cuts[index]));
}

/** Opens a page that arrives in pieces. The browser paints each piece before the next one is sent. */
async function openInPieces(page: Page, path: string): Promise<void> {
  let html: ServerResponse | undefined;
  let pieces: string[] = [];
  const proxy = createServer(async ({ url = "/", headers }, response) => {
    const forwarded = ["accept", "user-agent", "sec-fetch-site"].map((name) => [name, String(headers[name])] as [string, string]);
    const upstream = await fetch(at(url), { headers: forwarded });
    const bytes = Buffer.from(await upstream.arrayBuffer());
    response.writeHead(upstream.status, { "Content-Type": upstream.headers.get("Content-Type") ?? "" });
    if (url !== path) return response.end(bytes);
    [html, pieces] = [response, piecesOf(bytes.toString())];
    response.write(pieces[0]);
  });
  const response = await page.goto(`http://127.0.0.1:${await listen(proxy)}${path}`, { waitUntil: "commit" });
  expect(response?.status()).toBe(200);
  for (const piece of pieces.slice(1)) {
    // A page without a body has no frames, so the wait has an end.
    await page.evaluate("new Promise((painted) => { requestAnimationFrame(() => setTimeout(painted, 20)); setTimeout(painted, 150); })");
    html?.write(piece);
  }
  html?.end();
  await page.waitForLoadState();
  proxy.close();
}

describe("Nothing moves while a page arrives in pieces", () => {
  const expectStill = (path: string) =>
    atOnce(async (width) => {
      const page = await watchedPage(width);
      await openInPieces(page, path);
      await expectNoShift(page);
      await page.close();
    });

  it.each(loaded)("%s", async (path) => void (await expectStill(path)));

  it("the page of a webhook", async () => void (await expectStill(`/webhooks/${webhookId}`)));
});

describe("A chart", () => {
  it("opens the usage of the span that the reader selects with the keyboard, which a chip removes", async () => {
    await onPage("/", {}, async (page) => {
      await page.getByRole("slider", { name: "Span of time" }).first().focus();
      await page.keyboard.press("Shift+ArrowLeft");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/usage\?.*from=/);
      const { searchParams } = new URL(page.url());
      const [from, to] = ["from", "to"].map((name) => Date.parse(searchParams.get(name) ?? ""));
      // Yesterday, and today up to the end of the current hour.
      const today = dayStart(Date.now());
      expect([from, (to ?? 0) > today, (to ?? 0) <= today + dayMs]).toEqual([today - dayMs, true, true]);
      await page.getByRole("heading", { name: "Requests in this period" }).waitFor();
      expect(await page.locator("#log-part tbody tr").count()).toBeGreaterThan(2);
      await page.getByRole("link", { name: /^Remove the span/ }).click();
      expect(new URL(page.url()).searchParams.get("from")).toBeNull();
    });
  });

  it("takes a span of time by dragging over its bars, and says the numbers at the pointer", async () => {
    await onPage("/usage?window=24h", {}, async (page) => {
      const box = await page.locator("#requests-part .area").boundingBox();
      if (!box) throw new Error("the chart has no size");
      const [barWidth, middle] = [box.width / 24, box.y + box.height / 2];
      await page.mouse.move(box.x + 20.5 * barWidth, middle);
      const readout = page.locator("#requests-part .readout");
      expect(await readout.textContent()).toMatch(/: [\d,]+ requests?, \d+ failed, \d+ refused/);
      const shown = await readout.boundingBox();
      expect(shown && shown.x <= box.x + 20.5 * barWidth && shown.x + shown.width >= box.x + 20.5 * barWidth).toBe(true);
      await page.mouse.down();
      await page.mouse.move(box.x + 22.5 * barWidth, middle);
      await page.mouse.up();
      await page.waitForURL(/from=/);
      const { searchParams } = new URL(page.url());
      expect((Date.parse(searchParams.get("to") ?? "") - Date.parse(searchParams.get("from") ?? "")) / 3_600_000).toBe(3);
    });
  });

  it("says the sum of the selected bars, and the times at both ends of the selection", async () => {
    await onPage("/usage?window=24h", {}, async (page) => {
      const plot = page.locator("#requests-part [role=slider]");
      await plot.focus();
      const total = Number(/([\d,]+) requests/.exec((await page.locator("#requests-chart-desc").textContent()) ?? "")?.[1]);
      await page.keyboard.press("ArrowLeft");
      for (let bar = 0; bar < 30; bar++) await page.keyboard.press("ArrowLeft");
      for (let bar = 0; bar < 30; bar++) await page.keyboard.press("Shift+ArrowRight");
      const text = (await plot.getAttribute("aria-valuetext")) ?? "";
      expect(text).toMatch(new RegExp(`: ${total} requests, \\d+ failed, \\d+ refused$`));
      const [, from = "", to = ""] = /^(.*) to (.*): /.exec(text) ?? [];
      await page.keyboard.press("Enter");
      await page.waitForURL(/from=/);
      const { searchParams } = new URL(page.url());
      const inUtc = (text: string) => Date.parse(`${text} ${new Date().getUTCFullYear()} UTC`);
      expect([inUtc(from), inUtc(to)]).toEqual([Date.parse(searchParams.get("from") ?? ""), Date.parse(searchParams.get("to") ?? "")]);
    });
  });

  it("moves to its first and last bar with Home and End, and Esc drops a selection", async () => {
    await onPage("/usage?window=7d", {}, async (page) => {
      const plot = page.locator("#requests-part [role=slider]");
      await plot.focus();
      const now = () => plot.getAttribute("aria-valuenow");
      await page.keyboard.press("Home");
      expect(await now()).toBe("0");
      await page.keyboard.press("End");
      expect(await now()).toBe(await plot.getAttribute("aria-valuemax"));
      await page.keyboard.press("Shift+ArrowLeft");
      expect(await plot.getAttribute("aria-valuetext")).toContain(" to ");
      await page.keyboard.press("Escape");
      expect(await plot.getAttribute("aria-valuetext")).not.toContain(" to ");
    });
  });
});
