import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { fieldErrorsOf } from "./axe.ts";
import { startChromium } from "./chromium.ts";
import { join, type Person, person } from "./people.ts";

// Sign-in as on a deployed Worker, with Chromium's virtual authenticator.

let worker: RunningWorker;
let browser: Browser;
const at = (path = "/") => `http://localhost:${worker.port}${path}`;

beforeAll(async () => {
  [worker, browser] = await Promise.all([startWorker({ signIn: true }), startChromium()]);
});

afterAll(async () => {
  await Promise.all([browser?.close(), worker?.stop()]);
});

/** What Chromium complained of: a violated policy above all. */
const complaints: string[] = [];
const faults: string[] = [];
const h1 = (page: Page) => page.locator("h1").textContent();

/** Somebody new, whose browser is listened to. */
async function somebody(): Promise<Person> {
  const made = await person(browser);
  made.page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  return made;
}

let codes: string[] = [];
let owner: Person;

describe("The first owner", () => {
  it("comes in by the setup link with a passkey, and gets eight recovery codes", async () => {
    owner = await somebody();
    const { page } = owner;
    await page.goto(at("/keys?status=active"));
    expect(page.url()).toBe(at("/login?return_to=%2Fkeys%3Fstatus%3Dactive"));
    codes = await join(page, worker.setup, "Ada", "ada@example.com");
    faults.push(...(await fieldErrorsOf(page)));
    expect([codes.length, new Set(codes).size]).toEqual([8, 8]);
    // Codes that are neither copied nor kept as a file are not left unasked.
    const asked = page.waitForEvent("dialog");
    const leaving = page.getByRole("link", { name: "go to the overview" }).click();
    const dialog = await asked;
    expect(dialog.type()).toBe("beforeunload");
    await dialog.accept();
    await leaving;
    expect(await h1(page)).toBe("Overview");
  });

  it("finds the link used by then, and so does everybody", async () => {
    const { page } = await somebody();
    await page.goto(worker.setup);
    await page.getByRole("alert").filter({ hasText: "used before" }).waitFor();
    expect(await page.getByRole("button", { name: "Create passkey" }).count()).toBe(0);
  });

  it("signs out, which ends the session, and in again with the passkey", async () => {
    const { page, context } = owner;
    const [stolen] = await context.cookies();
    await page.getByRole("button", { name: "Sign out" }).click();
    expect(await h1(page)).toBe("Sign in");
    const other = await browser.newContext();
    await other.addCookies(stolen ? [stolen] : []);
    const thief = await other.newPage();
    await thief.goto(at("/keys"));
    expect(new URL(thief.url()).pathname).toBe("/login");
    await other.close();
    await page.goto(at("/keys"));
    await page.getByRole("button", { name: "Sign in with a passkey" }).click();
    await page.waitForURL(at("/keys"));
    expect(await h1(page)).toBe("API Keys");
  });

  it("is not let in again by what the passkey signed before, nor is anybody by what it signed for another purpose", async () => {
    const { page } = owner;
    await page.getByRole("button", { name: "Sign out" }).click();
    const sent = page.waitForRequest((request) => request.method() === "POST" && new URL(request.url()).pathname === "/login");
    await page.getByRole("button", { name: "Sign in with a passkey" }).click();
    const body = (await sent).postData() ?? "";
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    const headers = { Origin: at("").slice(0, -1), "Content-Type": "application/x-www-form-urlencoded" };
    const post = async (path: string, data: string) =>
      (await fetch(at(path), { method: "POST", headers, body: data, redirect: "manual" })).status;
    expect(await post("/login", body)).toBe(403);
    expect(await post("/login", body.replace("return_to=%2F", "return_to=%2Fkeys"))).toBe(403);
    expect([await post("/login", "response=%7B%7D"), await post("/login", "response=x"), await post("/login", "")]).toEqual([
      403, 403, 403,
    ]);
  });

  it("gets in once with each recovery code, also without script", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(at("/usage"));
    await page.getByRole("link", { name: "Use a recovery code" }).click();
    const enter = async (code: string) => {
      await page.getByLabel("Recovery code").fill(code);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    await enter("aaaaa-bbbbb-ccccc-ddddd-eeeee");
    expect(await page.getByRole("alert").textContent()).toContain("no recovery code");
    await enter((codes[0] ?? "").toUpperCase());
    expect(await h1(page)).toBe("Usage");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.goto(at("/login/recovery"));
    await enter(codes[0] ?? "");
    expect(await page.getByRole("alert").textContent()).toContain("used before");
    await context.close();
  });

  it("makes a key, whose secret is covered until it is asked for, copied, and no longer there after", async () => {
    const { page, context } = owner;
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: at("").slice(0, -1) });
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name").fill("By Ada");
    await page.getByRole("button", { name: "Create key" }).click();
    const secret = (await page.getByLabel("Secret key", { exact: true }).textContent())?.trim() ?? "";
    expect(secret).toMatch(/^dvo_/);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied.").waitFor();
    const called = await fetch(at("/api/v1/me"), { headers: { Authorization: `Bearer ${secret}` } });
    expect(called.status).toBe(200);
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
  const makeKeyLater = async (name: string) => {
    await worker.sql("UPDATE sessions SET verified_at = verified_at - 660000");
    const { page } = owner;
    await page.goto(at("/keys/new"));
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("heading", { level: 1, name: "Confirm that it is you" }).waitFor();
    return page;
  };

  it("makes a key once the passkey has confirmed who it is, and nothing that was typed is lost", async () => {
    const page = await makeKeyLater("After a passkey");
    faults.push(...(await fieldErrorsOf(page)));
    await page.bringToFront();
    await page.getByRole("button", { name: "Confirm with a passkey" }).click();
    await page.getByLabel("Secret key", { exact: true }).waitFor();
    expect(await page.locator("main").textContent()).toContain("After a passkey");
  });

  it("makes one with a recovery code, sent by Enter, which then is spent", async () => {
    const page = await makeKeyLater("After a code");
    await page.getByLabel("Recovery code").fill(codes[1] ?? "");
    await page.getByLabel("Recovery code").press("Enter");
    await page.getByLabel("Secret key", { exact: true }).waitFor();
    await (await makeKeyLater("Again")).getByLabel("Recovery code").fill(codes[1] ?? "");
    await page.getByRole("button", { name: "Confirm with a recovery code" }).click();
    await page.getByRole("alert").filter({ hasText: "used before" }).waitFor();
    await page.bringToFront();
    await page.getByRole("button", { name: "Confirm with a passkey" }).click();
    await page.getByLabel("Secret key", { exact: true }).waitFor();
  });
});

describe("Somebody who is invited", () => {
  it("joins by a link that works once, and may do what the role says", async () => {
    const { page } = owner;
    await page.goto(at("/settings"));
    await page.getByLabel("Email address").fill("vera@example.com");
    await page.getByLabel("Role", { exact: true }).selectOption("viewer");
    faults.push(...(await fieldErrorsOf(page)));
    await page.getByRole("button", { name: "Invite" }).click();
    const link = (await page.getByLabel("Invitation link").textContent()) ?? "";
    faults.push(...(await fieldErrorsOf(page)));
    const vera = await somebody();
    expect(await join(vera.page, link, "Vera")).toHaveLength(8);
    await vera.page.goto(at("/keys"));
    expect(await h1(vera.page)).toBe("API Keys");
    expect((await vera.page.goto(at("/keys/new")))?.status()).toBe(403);
    expect(await vera.page.getByRole("alert").textContent()).toContain("viewer");
    faults.push(...(await fieldErrorsOf(vera.page)));
    expect(await vera.page.locator("main").textContent()).toContain("Ada");
    const posted = await vera.page.request.post(at("/keys"), { form: { name: "No" }, headers: { Origin: at("").slice(0, -1) } });
    expect(posted.status()).toBe(403);
    const again = await somebody();
    await again.page.goto(link);
    await again.page.getByRole("alert").filter({ hasText: "used before" }).waitFor();
    // Removed, she is out at once.
    await page.goto(at("/settings"));
    await page.getByRole("row", { name: /Vera/ }).getByRole("link", { name: "Remove" }).click();
    faults.push(...(await fieldErrorsOf(page)));
    await page.getByRole("button", { name: "Remove Vera" }).click();
    await page.getByRole("status").filter({ hasText: "Removed." }).waitFor();
    await vera.page.goto(at("/keys"));
    expect(new URL(vera.page.url()).pathname).toBe("/login");
  });
});

it("axe complained of nothing on these pages", () => {
  expect(faults).toEqual([]);
});

it("Chromium complained of nothing but what was refused", () => {
  expect(complaints.filter((text) => !/status of (?:403|409|422)/.test(text))).toEqual([]);
});
