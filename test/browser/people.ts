import type { Browser, BrowserContext, Page } from "playwright-core";

/** A person at a device of their own, which has Chromium's virtual authenticator. */
export interface Person {
  context: BrowserContext;
  page: Page;
}

export async function person(browser: Browser): Promise<Person> {
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

/** Takes up a link with a passkey. Answers the recovery codes. */
export async function join(page: Page, link: string, name: string, email?: string): Promise<string[]> {
  await page.goto(link);
  await page.getByLabel("Your name").fill(name);
  if (email) await page.getByLabel("Your email address").fill(email);
  await page.getByRole("button", { name: "Create passkey" }).click();
  await page.getByRole("heading", { name: "Your recovery codes" }).waitFor();
  return page.getByLabel("Recovery codes").locator("code").allTextContents();
}
