import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { problemsOf } from "./axe.ts";
import { startChromium } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Signs in with Chromium's virtual authenticator. The Worker requires a sign-in, as a deployed Worker does. Each test depends on the tests
// before it.

let worker: RunningWorker;
let browser: Browser;
const at = (path = "/") => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  [worker, browser] = await Promise.all([startWorker({ signIn: true }), startChromium()]);
});

afterAll(async () => {
  await Promise.all([browser?.close(), worker?.stop()]);
});

/** The errors in Chromium's console, for example violations of the content security policy. */
const consoleErrors: string[] = [];
/** The problems of all pages that the tests checked. */
const problems: string[] = [];
const h1 = (page: Page) => page.locator("h1").textContent();
const originOfWorker = () => at("").slice(0, -1);

/** Opens a browser for a new person, and records the errors in the browser's console. */
async function newPerson(): Promise<Person> {
  const created = await person(browser);
  created.page.on("console", (message) => message.type() === "error" && consoleErrors.push(message.text()));
  return created;
}

/** Changes the time of each session's last confirmation to eleven minutes earlier. */
const backdateSessions = () => worker.sql("UPDATE sessions SET verified_at = verified_at - 660000");

let codes: string[] = [];
let owner: Person;

describe("The first owner", () => {
  it("joins with the setup link and a passkey, and gets eight recovery codes", async () => {
    owner = await newPerson();
    const { page } = owner;
    await page.goto(at("/keys?status=active"));
    expect(page.url()).toBe(at("/login?return_to=%2Fkeys%3Fstatus%3Dactive"));
    codes = await join(page, worker.setup, "Ada", "ada@example.com");
    problems.push(...(await problemsOf(page)));
    expect([codes.length, new Set(codes).size]).toEqual([8, 8]);
    // The recovery codes were neither copied nor saved as a file. The browser therefore asks for confirmation before it leaves the page.
    const dialogShown = page.waitForEvent("dialog");
    const leaving = page.getByRole("link", { name: "go to the overview" }).click();
    const dialog = await dialogShown;
    expect(dialog.type()).toBe("beforeunload");
    await dialog.accept();
    await leaving;
    expect(await h1(page)).toBe("Overview");
  });

  it("uses the setup link up, so that nobody can use it again", async () => {
    const { page } = await newPerson();
    await page.goto(worker.setup);
    await page.getByRole("alert").filter({ hasText: "already used" }).waitFor();
    expect(await page.getByRole("button", { name: "Create passkey" }).count()).toBe(0);
  });

  it("can sign out, which ends the session, and sign in again with the passkey", async () => {
    const { page, context } = owner;
    const [stolenCookie] = await context.cookies();
    await page.getByRole("button", { name: "Sign out" }).click();
    expect(await h1(page)).toBe("Sign in");
    const other = await browser.newContext();
    await other.addCookies(stolenCookie ? [stolenCookie] : []);
    const otherPage = await other.newPage();
    await otherPage.goto(at("/keys"));
    expect(new URL(otherPage.url()).pathname).toBe("/login");
    await other.close();
    await page.goto(at("/keys"));
    await page.getByRole("button", { name: "Sign in with a passkey" }).click();
    await page.waitForURL(at("/keys"));
    expect(await h1(page)).toBe("API Keys");
  });

  it("gets 403 for a passkey response that is sent again, changed or invalid", async () => {
    const { page } = owner;
    await page.getByRole("button", { name: "Sign out" }).click();
    const sent = page.waitForRequest((request) => request.method() === "POST" && new URL(request.url()).pathname === "/login");
    await page.getByRole("button", { name: "Sign in with a passkey" }).click();
    const body = (await sent).postData() ?? "";
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    const headers = { Origin: originOfWorker(), "Content-Type": "application/x-www-form-urlencoded" };
    const post = async (path: string, data: string) =>
      (await fetch(at(path), { method: "POST", headers, body: data, redirect: "manual" })).status;
    expect(await post("/login", body)).toBe(403);
    expect(await post("/login", body.replace("return_to=%2F", "return_to=%2Fkeys"))).toBe(403);
    expect([await post("/login", "response=%7B%7D"), await post("/login", "response=x"), await post("/login", "")]).toEqual([
      403, 403, 403,
    ]);
  });

  it("can sign in once with each recovery code, even without JavaScript", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(at("/usage"));
    await page.getByRole("link", { name: "Use a recovery code" }).click();
    const enter = async (code: string) => {
      await page.getByLabel("Recovery code").fill(code);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    await enter("aaaaa-bbbbb-ccccc-ddddd-eeeee");
    expect(await page.getByRole("alert").textContent()).toContain("not a valid recovery code");
    await enter((codes[0] ?? "").toUpperCase());
    expect(await h1(page)).toBe("Usage");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.goto(at("/login/recovery"));
    await enter(codes[0] ?? "");
    expect(await page.getByRole("alert").textContent()).toContain("already used");
    await context.close();
  });

  it("can create a key and copy its secret, which is gone when the page is opened again", async () => {
    const { page, context } = owner;
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: originOfWorker() });
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name").fill("By Ada");
    await page.getByRole("button", { name: "Create key" }).click();
    const secret = (await page.getByLabel("Secret key", { exact: true }).textContent())?.trim() ?? "";
    expect(secret).toMatch(/^dvo_/);
    await page.getByRole("button", { name: "Copy", exact: true }).click();
    await page.getByText("Copied.").waitFor();
    const response = await fetch(at("/api/v1/me"), { headers: { Authorization: `Bearer ${secret}` } });
    expect(response.status).toBe(200);
    await page.getByText("The first request is here").waitFor({ timeout: 8000 });
    const audit = await fetch(at("/api/v1/audit?action=key.created&actor=member"), { headers: { Authorization: `Bearer ${worker.key}` } });
    const { data } = (await audit.json()) as { data: unknown };
    expect(data).toMatchObject([{ actor: { type: "member", name: "Ada" }, target: { name: "By Ada" } }]);
    await page.goto(at("/keys"));
    await page.goBack();
    expect(await page.content()).not.toContain(secret.slice(21));
  });
});

describe("A member who signed in more than ten minutes ago", () => {
  /** Submits the form that creates a key, and waits until the page asks for a confirmation. */
  const submitKeyForm = async (name: string) => {
    await backdateSessions();
    const { page } = owner;
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("heading", { level: 1, name: "Confirm that it is you" }).waitFor();
    return page;
  };

  it("can create a key after a confirmation with the passkey, and the form keeps its values", async () => {
    const page = await submitKeyForm("After a passkey");
    problems.push(...(await problemsOf(page)));
    await page.bringToFront();
    await page.getByRole("button", { name: "Confirm with a passkey" }).click();
    await page.getByLabel("Secret key", { exact: true }).waitFor();
    expect(await page.locator("main").textContent()).toContain("After a passkey");
  });

  it("can confirm once with a recovery code, which the Enter key sends", async () => {
    const page = await submitKeyForm("After a code");
    await page.getByLabel("Recovery code").fill(codes[1] ?? "");
    await page.getByLabel("Recovery code").press("Enter");
    await page.getByLabel("Secret key", { exact: true }).waitFor();
    await (await submitKeyForm("Again")).getByLabel("Recovery code").fill(codes[1] ?? "");
    await page.getByRole("button", { name: "Confirm with a recovery code" }).click();
    await page.getByRole("alert").filter({ hasText: "already used" }).waitFor();
    await page.bringToFront();
    await page.getByRole("button", { name: "Confirm with a passkey" }).click();
    await page.getByLabel("Secret key", { exact: true }).waitFor();
  });
});

describe("An invited person", () => {
  it("can join once with the invitation link, has the permissions of the role, and loses access when removed", async () => {
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
    const posted = await vera.page.request.post(at("/keys"), { form: { name: "No" }, headers: { Origin: originOfWorker() } });
    expect(posted.status()).toBe(403);
    const other = await newPerson();
    await other.page.goto(link);
    await other.page.getByRole("alert").filter({ hasText: "already used" }).waitFor();
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
