import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { parseOptions, run } from "./command.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";

// `npm run brand` writes one picture of six pages in both themes, to look at a brand as a whole. The Worker must run: `npm start`.

const usage =
  "Usage: npm run brand -- [--url URL] [--out FILE]\n\n  --url URL   the address of the Worker; the default is http://localhost:8787\n  --out FILE  the picture; the default is brand.png";
const pages = ["/", "/keys", "/keys/new", "/activity", "/docs", "/nothing"];
const themes = ["light", "dark"] as const;
const size = { width: 1100, height: 760 };
const browsers = [process.env.CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/google-chrome"];

/** Returns a picture of each page, as data for an `img`. */
async function picturesOf(page: Page, url: string): Promise<string[]> {
  const pictures: string[] = [];
  for (const path of pages) {
    await page.goto(new URL(path, url).href);
    pictures.push(`data:image/png;base64,${(await page.screenshot()).toString("base64")}`);
  }
  return pictures;
}

await run(async () => {
  const text = { type: "string" } as const;
  const { url = "http://localhost:8787", out = "brand.png" } = parseOptions({ options: { url: text, out: text } }, usage).values;
  if (!URL.canParse(url)) throw new CommandError("misuse", `--url takes the address of the Worker.\n\n${usage}`);
  const executablePath = browsers.find((path) => path !== "" && existsSync(path));
  if (executablePath === undefined) throw new CommandError("misuse", "There is no Chromium. Name its program in the variable CHROMIUM.");
  const browser = await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
  try {
    const pictures: string[] = [];
    for (const colorScheme of themes) {
      const page = await browser.newPage({ viewport: size, colorScheme });
      await page.goto(url).catch(() => {
        throw new CommandError("unreachable", `${url} does not respond. Start the Worker first: npm start`);
      });
      pictures.push(...(await picturesOf(page, url)));
    }
    const sheet = await browser.newPage({ viewport: { width: 3 * size.width, height: 100 } });
    await sheet.setContent(
      `<body style="margin:0;display:grid;grid-template-columns:repeat(3,1fr);gap:8px">${pictures.map((each) => `<img src="${each}" style="width:100%">`).join("")}`,
    );
    await sheet.screenshot({ path: join(root, out), fullPage: true });
    return `${out} shows ${pages.length} pages in both themes.`;
  } finally {
    await browser.close();
  }
});
