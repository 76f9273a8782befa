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
  // A browser makes a passkey for the window in front alone.
  await page.bringToFront();
  await page.getByRole("button", { name: "Create passkey" }).click();
  // What is refused is said in an alert: the test shall say it too.
  const codes = page.getByRole("heading", { name: "Your recovery codes" });
  const refusal = page.getByRole("alert").filter({ visible: true, hasText: /\S/ });
  await codes.or(refusal).first().waitFor();
  if (await refusal.count()) throw new Error(`Nobody has joined: ${await refusal.first().textContent()}`);
  return page.getByLabel("Recovery codes").locator("code").allTextContents();
}
