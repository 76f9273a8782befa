/** @module-tag process */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { startReceiver } from "../../scripts/receiving.ts";
import { root } from "../../scripts/root.ts";
import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import type { BuiltLibrary } from "../../src/docs/library.ts";
import { fieldErrorCodes } from "../../src/lib/errors/explanations.ts";
import { apiCodes, failureCodes } from "../../src/lib/errors/failure.ts";
import { eventCatalogue } from "../../src/outbox/catalogue.ts";
import { listen } from "./listen.ts";
import { freePort } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Tests the documentation that the Worker serves. Runs the samples in the documentation against the same Worker.

const document = JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8")) as JsonObject;
const operations = operationsIn(document);

interface Received {
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

let worker: RunningWorker;
let receiver: { url: string; stop(): Promise<void> };
const received: Received[] = [];
const at = (path: string) => `http://localhost:${worker.port}${path}`;
/** The headers of a request from a browser's address bar. Only the responses to such requests contain ids of the demo account. */
const byAddressBar = { "Sec-Fetch-Site": "none" };
const textOf = async (path: string) => (await fetch(at(path), { headers: byAddressBar })).text();

beforeAll(async () => {
  worker = await startWorker();
  receiver = await startReceiver(await freePort(), (each) => received.push(each as Received));
});

afterAll(async () => {
  await receiver?.stop();
  await worker?.stop();
});

const api: RunningWorker["api"] = (...request) => worker.api(...request);

/** Runs a program with an input. The environment variable `API_KEY` contains the key, because the samples read this variable. */
async function run(command: string, args: string[], input: string): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(command, args, { env: { ...process.env, API_KEY: worker.key }, stdio: ["pipe", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (err += chunk));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, err };
}

/**
 * Runs a sample. Returns the HTTP status that the sample received. If the sample prints no status, returns the error output of the sample.
 */
async function statusOf(language: string, code: string): Promise<string> {
  if (language === "sh") return (await run("sh", [], code.replace(/^curl /, "curl -s -o /dev/null -w '%{http_code}' "))).out;
  const { out, err } =
    language === "js" ? await run(process.execPath, ["--input-type=module", "-"], code) : await run("python3", ["-"], code);
  return out.trim().split(/\s/)[0] || err;
}

/** Returns the code blocks of a Markdown text. */
const codeBlocksIn = (markdown: string) =>
  [...markdown.matchAll(/^```(\w+)\n([\s\S]*?)\n```$/gm)].map(([, language = "", code = ""]) => ({ language, code }));

/** Creates one resource of each kind. The samples that a local Worker serves use the newest resources. */
async function createResources(): Promise<void> {
  await api("POST", "/users", { name: "Sample", email: `sample.${Date.now()}@example.com` });
  await api("POST", "/keys", { name: "Sample" });
  // No server listens on port 9. The first attempt therefore fails, and the delivery waits for its second attempt.
  const webhook = await api("POST", "/webhooks", { url: "http://localhost:9/", event_types: ["task.created"] });
  await api("POST", "/tasks", { title: "Sample" });
  const readAttempts = async () => (await api("GET", `/webhooks/${webhook.id}/deliveries`)).data[0]?.attempts_made;
  await vi.waitFor(async () => expect(await readAttempts()).toBe(1), { timeout: 30_000, interval: 100 });
  await api("POST", `/webhooks/${webhook.id}/redeliver`, { from: "2026-01-01T00:00:00Z", status: "delivered" });
}

/** Deletes the webhooks that samples have created. An account can have only one webhook for each URL. */
async function deleteWebhooks(): Promise<void> {
  for (const { id } of (await api("GET", "/webhooks")).data) await api("DELETE", `/webhooks/${id}`);
}

describe("The reference", () => {
  // The short form of this test runs the curl samples. The long form runs the samples in the other languages.
  it.each(inject("isLong") ? ["js", "python"] : ["sh"])(
    "has samples in %s that run unchanged and get a documented status",
    { tags: ["long"] },
    async (language) => {
      await createResources();
      const problems: string[] = [];
      // The samples that delete resources run last, because other samples use these resources.
      const ordered = operations.toSorted((a, b) => Number(a.method === "delete") - Number(b.method === "delete"));
      for (const { operation } of ordered) {
        const markdown = await textOf(`/docs/api/${operation.operationId}.md`);
        const blocks = codeBlocksIn(markdown);
        const [first] = blocks;
        const isPublic = (operation.security as unknown[]).length === 0;
        if (first?.language !== "sh" || !markdown.startsWith("```sh\ncurl ") || (!isPublic && !first.code.includes('Bearer $API_KEY"')))
          problems.push(`the page of ${operation.operationId} does not start with a curl command`);
        const code = blocks.find((block) => block.language === language)?.code ?? "";
        const status = await statusOf(language, code);
        const documented = Object.keys(operation.responses).filter((each) => Number(each) < 400);
        if (!documented.includes(status)) problems.push(`the sample of ${operation.operationId} gets ${status}`);
      }
      for (const { id, email } of (await api("GET", "/users?q=ada@example.com")).data)
        if (email === "ada@example.com") await api("DELETE", `/users/${id}`);
      // No server listens at the webhook URLs in the samples. The test therefore deletes the webhooks that the samples created.
      await deleteWebhooks();
      expect(problems).toEqual([]);
    },
  );
});

describe("Each guide", () => {
  it("has samples that run unchanged", async () => {
    const problems: string[] = [];
    const links = [...(await textOf("/docs.md")).matchAll(/\((\/docs\/guides\/[a-z-]+)\)/g)];
    for (const path of new Set(links.map(([, path]) => path)))
      for (const { language, code } of codeBlocksIn(await textOf(`${path}.md`))) {
        if (!["sh", "js", "python"].includes(language)) continue;
        if (code.includes("verify(")) continue;
        // A sample that reads a whole list prints the list, and fails if a request fails.
        const isList = code.includes("for await");
        const status = await statusOf(language, code);
        const isOk = isList ? !/error|^\d|^$/i.test(status) : /^(?:2\d\d|304)$/.test(status);
        if (!isOk) problems.push(`${path}: ${status} from ${code}`);
      }
    await deleteWebhooks();
    expect(problems).toEqual([]);
  });
});

describe("The guide to webhooks", () => {
  it("has a sample in each language that accepts a real webhook request and rejects a changed body", async () => {
    const { secret, id } = await api("POST", "/webhooks", { url: receiver.url, event_types: ["webhook.test"] });
    await api("POST", `/webhooks/${id}/test`);
    const { headers, body } = await vi.waitUntil(() => received[0], { timeout: 30_000, interval: 50 });
    const blocks = codeBlocksIn(await textOf("/docs/guides/webhooks.md")).filter(({ code }) => code.includes("verify("));
    const headersJson = JSON.stringify(headers);
    const [withLibrary = "", js = ""] = blocks.filter(({ language }) => language === "js").map(({ code }) => code);
    const verifyCall = (text: string) => `verify(${JSON.stringify(secret)}, ${headersJson}, ${JSON.stringify(text)})`;
    // Frameworks give headers as an object or as `Headers`, and people copy the version of a signature along with a secret.
    const withHeaders = `verify(${JSON.stringify(`v1,${secret}`)}, new Headers(${headersJson}), ${JSON.stringify(body)})`;
    const asBytes = `verify(${JSON.stringify(` ${secret}\n`)}, ${headersJson}, new TextEncoder().encode(${JSON.stringify(body)}))`;
    const withoutSecret = `try { verify("", ${headersJson}, "") } catch (error) { console.log(error.message) }`;
    const jsProgram = `${js}\nconsole.log(${verifyCall(body)}, ${verifyCall(`${body} `)}, ${withHeaders}, ${asBytes});\n${withoutSecret}`;
    const inJs = await run(process.execPath, ["--input-type=module", "-"], jsProgram);
    expect(inJs.out.trim()).toBe("true false true true\nthe secret of the webhook is missing");
    const variables = [
      `process.env.WEBHOOK_SECRET = ${JSON.stringify(secret)};`,
      `const headers = ${headersJson}; const rawBody = ${JSON.stringify(body)};`,
    ];
    const libraryProgram = [...variables, withLibrary, "console.log(event.type);"].join("\n");
    const library = await run(process.execPath, ["--input-type=module", "-"], libraryProgram);
    expect([library.out.trim(), library.err]).toEqual(["webhook.test", ""]);
    const python = blocks.find(({ language }) => language === "python")?.code ?? "";
    const farOff = `verify(${JSON.stringify(secret)}, {**${headersJson}, "webhook-timestamp": "9" * 400}, "")`;
    const inPython = await run("python3", ["-"], `${python}\nprint(${verifyCall(body)}, ${verifyCall(`${body} `)}, ${farOff})`);
    expect([inPython.out.trim(), inPython.err]).toEqual(["True False False", ""]);
    if (spawnSync("go", ["version"]).status !== 0) return;
    const folder = mkdtempSync(join(tmpdir(), "verify-"));
    const go = blocks.find(({ language }) => language === "go")?.code ?? "";
    const goCall = (text: string) => `verify(${JSON.stringify(secret)}, header, ${JSON.stringify(text)})`;
    const setHeaders = Object.entries(headers).map(([name, value]) => `header.Set(${JSON.stringify(name)}, ${JSON.stringify(value)})`);
    const statements = ["header := http.Header{}", ...setHeaders, `println(${goCall(body)}, ${goCall(`${body} `)})`];
    const main = `func main() {\n\t${statements.join("\n\t")}\n}`;
    writeFileSync(join(folder, "main.go"), go.replace("func main() {}", main));
    const inGo = await run("go", ["run", join(folder, "main.go")], "");
    rmSync(folder, { recursive: true });
    expect(inGo.err.trim()).toBe("true false");
  });
});

describe("The guide to limits", () => {
  it.each([
    ["2592000", 1],
    ["-1", 1],
    ["0", 5],
    ["0.001", 2],
  ])("has a sample that gets 429 with Retry-After: %s and makes %s attempts", async (retryAfter, attempts) => {
    let requests = 0;
    const startedAt = Date.now();
    const server = createServer((_, response) => {
      const isOver = ++requests === 2 && retryAfter === "0.001";
      response.writeHead(isOver ? 200 : 429, { "Retry-After": retryAfter }).end();
    });
    const port = await listen(server);
    const sample = codeBlocksIn(await textOf("/docs/guides/limits.md")).find(({ code }) => code.includes("Retry-After"))?.code ?? "";
    const program = sample.replace(/https?:\/\/[^/]+\/api/, `http://127.0.0.1:${port}/api`);
    const { out } = await run(process.execPath, ["--input-type=module", "-"], program);
    server.close();
    expect([out.trim(), requests]).toEqual([attempts === 2 ? "200" : "429", attempts]);
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual((attempts - 1) * 1000);
  });
});

describe("The quick start", () => {
  it("has commands that get the first 200, the first 201 and the first verified webhook request", async () => {
    const steps = (await textOf("/docs/guides/quick-start.md")).split(/^## /m).slice(1);
    const commandOf = (step: number) => codeBlocksIn(steps[step - 1] ?? "")[0]?.code ?? "";
    expect(steps.findIndex((step) => step.startsWith("From here"))).toBe(6);
    expect([await statusOf("sh", commandOf(2)), await statusOf("sh", commandOf(3))]).toEqual(["200", "201"]);
    const guide = await textOf("/docs/guides/webhooks.md");
    const partOf = (begin: RegExp) => codeBlocksIn(guide).find(({ code }) => begin.test(code))?.code ?? "";
    const port = await freePort();
    const receiver = [/^import \{ createHmac/, /^import \{ createServer/].map(partOf).join("\n").replace("4000", String(port));
    const url = `http://localhost:${port}/`;
    const { secret } = JSON.parse((await run("sh", [], commandOf(5).replace("https://hooks.acme.dev/", url))).out) as { secret: string };
    const program = join(mkdtempSync(join(tmpdir(), "receiver-")), "receiver.mjs");
    writeFileSync(program, `${receiver}\nconsole.log("listening");`);
    const receiving = spawn(process.execPath, [program, secret], { cwd: root, detached: true, stdio: ["ignore", "pipe", "inherit"] });
    let printed = "";
    receiving.stdout.on("data", (chunk) => (printed += chunk));
    try {
      await vi.waitFor(() => expect(printed).toContain("listening"), { timeout: 60_000, interval: 100 });
      expect(await statusOf("sh", commandOf(3))).toBe("201");
      await vi.waitFor(() => expect(printed).toContain("signature valid"), { timeout: 10_000, interval: 100 });
      expect(printed).toContain("task.created");
    } finally {
      process.kill(-(receiving.pid ?? 0), "SIGTERM");
    }
  });
});

describe("The documentation", () => {
  it("has no broken links, and each page also exists as Markdown", async () => {
    const visited = new Set<string>();
    const problems: string[] = [];
    const queue = ["/docs"];
    while (queue.length > 0) {
      const path = queue.pop() as string;
      if (visited.has(path)) continue;
      visited.add(path);
      const response = await fetch(at(path), { headers: byAddressBar, redirect: "manual" });
      const html = await response.text();
      if (response.status !== 200) problems.push(`${path} returns ${response.status}`);
      if (!path.startsWith("/docs") || path.endsWith(".md")) continue;
      const markdown = await fetch(at(path), { headers: { ...byAddressBar, Accept: "text/markdown" } });
      const [byAccept, bySuffix] = [await markdown.text(), await textOf(`${path}.md`)];
      if (byAccept !== bySuffix || !markdown.headers.get("Content-Type")?.startsWith("text/markdown"))
        problems.push(`${path} has different Markdown for Accept and for .md`);
      const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
      for (const [, anchor] of html.matchAll(/href="#([^"]+)"/g)) if (!ids.has(anchor)) problems.push(`${path}#${anchor}`);
      const main = /<main[\s\S]*<\/main>/.exec(html)?.[0] ?? "";
      for (const [, href = ""] of main.matchAll(/href="(\/[^"#?]*)/g)) if (/^\/(?:docs|api|llms|\.well-known)/.test(href)) queue.push(href);
    }
    expect(problems).toEqual([]);
    expect(visited.size).toBeGreaterThan(150);
  }, 120_000);

  it("selects Markdown or HTML by the weights in Accept", async () => {
    const typeFor = async (accept: string) =>
      (await fetch(at("/docs/guides/limits"), { headers: { Accept: accept } })).headers.get("Content-Type")?.split(";")[0];
    for (const [accept, type] of [
      ["text/markdown", "text/markdown"],
      ["text/markdown, text/html;q=0.5", "text/markdown"],
      ["text/html;q=0.1, text/markdown", "text/markdown"],
      ["text/html, text/markdown;q=0.5", "text/html"],
      ["text/markdown;q=0", "text/html"],
      ["*/*", "text/html"],
    ] as const)
      expect(await typeFor(accept), accept).toBe(type);
    expect(await textOf("/docs/search.md?q=back%20off")).toContain("(/docs/guides/limits.md)");
    expect(await textOf("/docs/guides/auth.md")).toContain("(/docs.md)");
    const incomplete = await fetch(at("/docs/errors"), { redirect: "manual" });
    expect([incomplete.status, new URL(incomplete.headers.get("Location") ?? "", at("/")).pathname]).toEqual([302, "/docs"]);
  });

  it("has a page for each error code and each event type, and leads from unknown names to all pages", async () => {
    const index = await textOf("/docs.md");
    const pagesOf = (kind: string) => [...index.matchAll(new RegExp(`\\(/docs/${kind}/([\\w.]+)\\)`, "g"))].map(([, name]) => name);
    expect(pagesOf("errors").toSorted()).toEqual(apiCodes.toSorted());
    for (const code of failureCodes) expect(await textOf(`/docs/errors/${code}.md`)).toContain(code);
    expect(pagesOf("events")).toEqual(eventCatalogue.types);
    const unknown = await fetch(at("/docs/errors/account_suspendd"));
    const text = await unknown.text();
    expect([unknown.status, text.includes('<a href="/docs">documentation</a>')]).toEqual([404, true]);
  });

  it("has no broken link on the pages for teams", () => {
    const { pages, team } = JSON.parse(readFileSync(join(root, "src/docs/built.txt"), "utf8")) as BuiltLibrary;
    const paths = new Set([...pages, ...team].map(({ path }) => path));
    const broken = team.flatMap(({ path, html }) =>
      [...html.matchAll(/href="(\/docs\/[^"#]+)/g)].flatMap(([, target = ""]) => (paths.has(target) ? [] : [`${path}: ${target}`])),
    );
    expect(broken).toEqual([]);
  });

  it("explains each code of a field error", async () => {
    const used = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.tsx?$/.test(file))
      .flatMap((file) => [...readFileSync(join(root, "src", file), "utf8").matchAll(/\bcode: "(\w+)"/g)].map(([, code]) => code as string))
      .filter((code) => code !== "custom");
    expect([...new Set(used)].filter((code) => !(code in fieldErrorCodes))).toEqual([]);
  });

  it("has a search that finds pages, and that states how many pages it searched if it finds none", async () => {
    for (const [words, path] of [
      ["create a task", "/docs/api/createTask"],
      ["rate_limit_exceeded", "/docs/errors/rate_limit_exceeded"],
      ["webhook.test", "/docs/events/webhook.test"],
      ["Idempotency-Key", "/docs/guides/idempotency"],
      ["back off", "/docs/guides/limits#how-to-back-off"],
    ] as const)
      expect(await textOf(`/docs/search?q=${encodeURIComponent(words)}`), words).toContain(`href="${path}"`);
    expect(await textOf("/docs/search?q=zzzzz")).toContain("pages were searched");
  });

  it("has llms.txt and an API catalog with working links", async () => {
    const links = [...(await textOf("/llms.txt")).matchAll(/\]\((http[^)]+)\)/g)].map(([, href = ""]) => href);
    expect(links.length).toBeGreaterThan(140);
    const catalogue = await fetch(at("/.well-known/api-catalog"));
    expect(catalogue.headers.get("Content-Type")).toContain("application/linkset+json");
    const { linkset } = (await catalogue.json()) as { linkset: Record<string, { href: string }[]>[] };
    const hrefs = Object.values(linkset[0] ?? {}).flatMap((targets) => (Array.isArray(targets) ? targets.map(({ href }) => href) : []));
    const statuses = await Promise.all([...links.slice(0, 20), ...hrefs].map(async (href) => [href, (await fetch(href)).status] as const));
    expect(statuses.filter(([, status]) => status !== 200)).toEqual([]);
    // For this Worker, SECURITY_CONTACT is not set.
    expect((await fetch(at("/.well-known/security.txt"))).status).toBe(404);
  });
});
