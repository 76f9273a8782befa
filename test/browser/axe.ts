import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

/**
 * Waits until a page has loaded, and returns a description of each of its problems: violations that axe finds, horizontal scrolling,
 * and a number of `h1` elements other than one.
 */
export async function problemsOf(page: Page): Promise<string[]> {
  await page.waitForLoadState();
  const { pathname } = new URL(page.url());
  const [scrollWidth, clientWidth, headings] = (await page.evaluate(
    "[document.documentElement.scrollWidth, document.documentElement.clientWidth, document.querySelectorAll('h1').length]",
  )) as [number, number, number];
  await page.evaluate(axe);
  const violations = (await page.evaluate(
    `axe.run({ runOnly: ${JSON.stringify(rules)} }).then(({ violations }) => violations)`,
  )) as Violation[];
  return [
    ...(scrollWidth > clientWidth ? [`${pathname} scrolls horizontally: ${scrollWidth} pixels`] : []),
    ...(headings === 1 ? [] : [`${pathname} has ${headings} h1 elements`]),
    ...violations.map(({ id, nodes }) => `${pathname}: ${id}: ${nodes[0]?.html.slice(0, 200)} ${nodes[0]?.failureSummary.slice(0, 300)}`),
  ];
}
