import type { BrowserContext, Page } from "playwright-core";
import type { Pages } from "./chromium.ts";

/** A person. Each person has a separate device with Chromium's virtual authenticator. */
export interface Person {
  context: BrowserContext;
  page: Page;
}

/** Opens a page in a new browser context with a virtual authenticator. */
export async function person(browser: Pages): Promise<Person> {
  const context = await browser.newContext();
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("WebAuthn.enable");
  await session.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return { context, page };
}

/** Joins the account with a setup link or an invitation link, and creates a passkey. Returns the recovery codes. */
export async function join(page: Page, link: string, name: string, email?: string): Promise<string[]> {
  await page.goto(link);
  await page.getByLabel("Your name").fill(name);
  if (email) await page.getByLabel("Your email address").fill(email);
  // A browser can create a passkey only in the foreground window.
  await page.bringToFront();
  await page.waitForFunction("document.hasFocus()");
  await page.getByRole("button", { name: "Create passkey" }).click();
  // If the page rejects the form, the test fails with the text of the page's alert.
  const codes = page.getByRole("heading", { name: "Your recovery codes" });
  const alert = page.getByRole("alert").filter({ visible: true, hasText: /\S/ });
  await codes.or(alert).first().waitFor();
  if (await alert.count()) throw new Error(`The person could not join: ${await alert.first().textContent()}`);
  return page.getByLabel("Recovery codes").locator("code").allTextContents();
}
