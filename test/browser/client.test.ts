import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { root } from "../../scripts/root.ts";
import { listen } from "../node/listen.ts";
import { useBrowser } from "./chromium.ts";

// Runs the client in a page of another origin. The browser therefore sends CORS preflights for the client's requests.

const { worker, browser } = useBrowser();
let server: Server;
let port: number;

const program = `
import { createClient, ProblemError } from "./client/src/index.ts";
globalThis.run = async (baseUrl, apiKey) => {
  const client = createClient({ baseUrl, apiKey });
  const { id } = await client.tasks.create({ title: "From a page" });
  const { status } = await client.tasks.update(id, { status: "done" }, { ifMatch: "*" });
  let responsesToLose = 1;
  const losingClient = createClient({ baseUrl, apiKey, fetch: async (request) => {
    const response = await fetch(request);
    if (responsesToLose-- > 0) throw new TypeError("Failed to fetch");
    return response;
  } });
  const retried = await losingClient.tasks.create({ title: "From a page, again" });
  const titles = [];
  for await (const { title } of client.tasks.list({ q: "from a page" })) titles.push(title);
  responsesToLose = 1;
  const secret = await losingClient.keys.create({ name: "Lost" }).catch((error) => error.name);
  await client.tasks.delete(retried.id);
  const problem = await client.tasks.get(retried.id).catch((error) => error instanceof ProblemError && error.code);
  return { status, titles, secret, problem };
};`;

beforeAll(async () => {
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: root, loader: "ts" },
    nodePaths: [join(root, "client/node_modules")],
    bundle: true,
    format: "esm",
    write: false,
  });
  server = createServer((request, response) => {
    const isScript = request.url === "/run.js";
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? outputFiles[0]?.text : '<script type="module" src="/run.js"></script>');
  });
  port = await listen(server);
});

afterAll(() => void server?.close());

it("The client works in a page of another origin, including its retries and errors", async () => {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.waitForFunction("globalThis.run");
  const result = await page.evaluate(`run("http://localhost:${worker.port}", ${JSON.stringify(worker.key)})`);
  expect(result).toEqual({
    status: "done",
    titles: ["From a page, again", "From a page"],
    secret: "SecretLostError",
    problem: "not_found",
  });
});
