import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { problemsOf } from "./axe.ts";
import { useBrowser } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Signs in with Chromium's virtual authenticator. The Worker requires a sign-in, as a deployed Worker does. Each test depends on the tests
// before it.

const { worker, browser } = useBrowser({ signIn: true });
const at = (path = "/") => `http://localhost:${worker.port}${path}`;

/** The errors in Chromium's console, for example violations of the content security policy. */
const consoleErrors: string[] = [];
/** The problems of all pages that the tests checked. */
const problems: string[] = [];
const h1 = (page: Page) => page.locator("h1").textContent();

/** Opens a browser for a new person, and records the errors in the browser's console. */
async function newPerson(): Promise<Person> {
  const created = await person(browser);
  created.page.on("console", (message) => message.type() === "error" && consoleErrors.push(message.text()));
  return created;
}

/** Changes the time of each session's last confirmation to eleven minutes earlier. */
const backdateSessions = () => worker.sql("UPDATE sessions SET verified_at = verified_at - 660000");

let owner: Person;

describe("The first owner", () => {
  it("joins with the setup link and a passkey, and gets eight recovery codes", async () => {
    owner = await newPerson();
    const { page } = owner;
    await page.goto(at("/keys?status=active"));
    expect(page.url()).toBe(at("/login?return_to=%2Fkeys%3Fstatus%3Dactive"));
    const codes = await join(page, worker.setup, "Ada", "ada@example.com");
    problems.push(...(await problemsOf(page)));
    expect([codes.length, new Set(codes).size]).toEqual([8, 8]);
    // The recovery codes were neither copied nor saved as a file. The browser therefore asks for confirmation before it leaves the page.
    const dialogShown = page.waitForEvent("dialog");
    const leaving = page.getByRole("link", { name: "go to the overview" }).click();
    const dialog = await dialogShown;
    expect(dialog.type()).toBe("beforeunload");
    await dialog.accept();
    await leaving;
    expect(await h1(page)).toBe("Make your first call");
  });

  it("uses the setup link up, so that nobody can use it again", async () => {
    const { page } = await newPerson();
    await page.goto(worker.setup);
    await page.getByRole("alert").filter({ hasText: "already used" }).waitFor();
    expect(await page.getByRole("button", { name: "Create passkey" }).count()).toBe(0);
  });

  it("does not see the secret of a new key again with the back button", async () => {
    const { page } = owner;
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name").fill("By Ada");
    await page.getByRole("button", { name: "Create key" }).click();
    const secret = (await page.getByLabel("Secret key", { exact: true }).textContent())?.trim() ?? "";
    expect(secret).toMatch(/^dvo_/);
    await page.goto(at("/keys"));
    await page.goBack();
    expect(await page.content()).not.toContain(secret.slice(21));
  });
});

describe("A member who signed in more than ten minutes ago", () => {
  it("can create a key after a confirmation with the passkey, and the form keeps its values", async () => {
    await backdateSessions();
    const { page } = owner;
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name", { exact: true }).fill("After a passkey");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("heading", { level: 1, name: "Confirm that it is you" }).waitFor();
    problems.push(...(await problemsOf(page)));
    await page.bringToFront();
    await page.waitForFunction("document.hasFocus()");
    await page.getByRole("button", { name: "Confirm with a passkey" }).click();
    await page.getByLabel("Secret key", { exact: true }).waitFor();
    expect(await page.locator("main").textContent()).toContain("After a passkey");
  });
});

describe("An invited person", () => {
  it("can join with the invitation link, has the permissions of the role, and loses access when removed", async () => {
    const { page } = owner;
    await page.goto(at("/settings"));
    await page.getByLabel("Email address").fill("vera@example.com");
    await page.getByLabel("Role", { exact: true }).selectOption("viewer");
    problems.push(...(await problemsOf(page)));
    await page.getByRole("button", { name: "Invite" }).click();
    const link = (await page.getByLabel("Invitation link").textContent()) ?? "";
    problems.push(...(await problemsOf(page)));
    const vera = await newPerson();
    expect(await join(vera.page, link, "Vera")).toHaveLength(8);
    await vera.page.goto(at("/keys"));
    expect(await h1(vera.page)).toBe("API Keys");
    expect((await vera.page.goto(at("/keys/new")))?.status()).toBe(403);
    expect(await vera.page.getByRole("alert").textContent()).toContain("viewer");
    problems.push(...(await problemsOf(vera.page)));
    expect(await vera.page.locator("main").textContent()).toContain("Ada");
    // When Vera is removed from the account, her session ends.
    await page.goto(at("/settings"));
    await page.getByRole("row", { name: /Vera/ }).getByRole("link", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Remove Vera" }).waitFor();
    problems.push(...(await problemsOf(page)));
    await page.getByRole("button", { name: "Remove Vera" }).click();
    await page.getByRole("status").filter({ hasText: "was removed" }).waitFor();
    await vera.page.goto(at("/keys"));
    expect(new URL(vera.page.url()).pathname).toBe("/login");
  });
});

it("The pages of the sign-in pass axe and do not scroll horizontally", () => {
  expect(problems).toEqual([]);
});

it("The pages of the sign-in cause no errors in Chromium's console, except for rejected requests", () => {
  expect(consoleErrors.filter((text) => !/status of (?:403|409|422)/.test(text))).toEqual([]);
});
