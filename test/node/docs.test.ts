import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { startReceiver } from "../../scripts/receiving.ts";
import { root } from "../../scripts/root.ts";
import { faultCodes } from "../../src/errors/explanations.ts";
import { failures } from "../../src/errors/failure.ts";
import { eventCatalogue } from "../../src/events/catalogue.ts";
import { type JsonObject, operationsIn } from "../../src/openapi/document.ts";
import { freePort } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// The documentation, as it is served, against the service that serves it.

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
/** As a browser's address bar asks: only then are there ids of the demo account in it. */
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

const api: RunningWorker["api"] = (...asked) => worker.api(...asked);

/** Runs a program with a text on its input, and the key where the samples look for it. */
async function run(command: string, args: string[], input: string): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(command, args, { env: { ...process.env, API_KEY: worker.key }, stdio: ["pipe", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (err += chunk));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, err };
}

/** The status that a sample gets. */
async function statusOf(language: string, code: string): Promise<string> {
  if (language === "sh") return (await run("sh", [], code.replace(/^curl /, "curl -s -o /dev/null -w '%{http_code}' "))).out;
  const { out, err } =
    language === "js" ? await run(process.execPath, ["--input-type=module", "-"], code) : await run("python3", ["-"], code);
  return out.trim().split(/\s/)[0] || err;
}

const fences = (markdown: string) =>
  [...markdown.matchAll(/^```(\w+)\n([\s\S]*?)\n```$/gm)].map(([, language = "", code = ""]) => ({ language, code }));

/** One of each thing that there is: on a laptop, samples name the latest. */
async function makeThings(): Promise<void> {
  await api("POST", "/users", { name: "Sample", email: `sample.${Date.now()}@example.com` });
  await api("POST", "/keys", { name: "Sample" });
  // Nobody listens there: its deliveries wait for a further attempt.
  const webhook = await api("POST", "/webhooks", { url: "http://localhost:9/", event_types: ["task.created"] });
  await api("POST", "/tasks", { title: "Sample" });
  const delivery = async () => (await api("GET", `/webhooks/${webhook.id}/deliveries`)).data[0];
  while ((await delivery())?.attempts_made !== 1) await sleep(100);
  await api("POST", `/webhooks/${webhook.id}/redeliver`, { from: "2026-01-01T00:00:00Z", status: "delivered" });
}

describe("A sample of the reference", () => {
  // In short, curl; in full, the other languages.
  it.each(inject("isLong") ? ["js", "python"] : ["sh"])(
    "in %s runs as it stands and gets the status that is documented",
    { tags: ["long"] },
    async (language) => {
      await makeThings();
      const wrong: string[] = [];
      // What ends something comes last.
      const order = operations.toSorted((a, b) => Number(a.method === "delete") - Number(b.method === "delete"));
      for (const { operation } of order) {
        const markdown = await textOf(`/docs/api/${operation.operationId}.md`);
        const all = fences(markdown);
        const isPublic = (operation.security as unknown[]).length === 0;
        if (all[0]?.language !== "sh" || !markdown.startsWith("```sh\ncurl ") || (!isPublic && !all[0].code.includes('Bearer $API_KEY"')))
          wrong.push(`${operation.operationId} does not begin with its curl`);
        const code = all.find((each) => each.language === language)?.code ?? "";
        const status = await statusOf(language, code);
        const documented = Object.keys(operation.responses).filter((each) => Number(each) < 400);
        if (!documented.includes(status)) wrong.push(`${operation.operationId} answers ${status}`);
      }
      for (const { id, email } of (await api("GET", "/users?q=ada@example.com")).data)
        if (email === "ada@example.com") await api("DELETE", `/users/${id}`);
      // What the sample leads to is nobody's here.
      for (const { id } of (await api("GET", "/webhooks")).data) await api("DELETE", `/webhooks/${id}`);
      expect(wrong).toEqual([]);
    },
  );
});

describe("A guide", () => {
  it("has samples that run as they stand", async () => {
    const wrong: string[] = [];
    for (const [, path] of (await textOf("/docs.md")).matchAll(/\((\/docs\/guides\/[a-z-]+)\)/g))
      for (const { language, code } of fences(await textOf(`${path}.md`))) {
        if (!["sh", "js", "python"].includes(language)) continue;
        if (code.includes("verify(")) continue;
        const status = await statusOf(language, code);
        if (!/^(?:2\d\d|304)$/.test(status)) wrong.push(`${path}: ${status} from ${code}`);
      }
    expect(wrong).toEqual([]);
  });

  it("verifies a real request of a webhook in each language, and refuses one that was changed", async () => {
    const { secret, id } = await api("POST", "/webhooks", { url: receiver.url, event_types: ["webhook.test"] });
    await api("POST", `/webhooks/${id}/test`);
    while (received.length === 0) await sleep(50);
    const { headers, body } = received[0] as Received;
    const all = fences(await textOf("/docs/guides/webhooks.md")).filter(({ code }) => code.includes("verify("));
    const given = JSON.stringify(headers);
    const [byLibrary = "", js = ""] = all.filter(({ language }) => language === "js").map(({ code }) => code);
    const calls = (text: string) => `verify(${JSON.stringify(secret)}, ${given}, ${JSON.stringify(text)})`;
    const inJs = await run(process.execPath, ["--input-type=module", "-"], `${js}\nconsole.log(${calls(body)}, ${calls(`${body} `)});`);
    expect(inJs.out.trim()).toBe("true false");
    const before = `process.env.WEBHOOK_SECRET = ${JSON.stringify(secret)}; const headers = ${given}; const rawBody = ${JSON.stringify(body)};`;
    const library = await run(process.execPath, ["--input-type=module", "-"], `${before}\n${byLibrary}\nconsole.log(event.type);`);
    expect([library.out.trim(), library.err]).toEqual(["webhook.test", ""]);
    const python = all.find(({ language }) => language === "python")?.code ?? "";
    const inPython = await run("python3", ["-"], `${python}\nprint(${calls(body)}, ${calls(`${body} `)})`);
    expect([inPython.out.trim(), inPython.err]).toEqual(["True False", ""]);
    if (spawnSync("go", ["version"]).status !== 0) return;
    const folder = mkdtempSync(join(tmpdir(), "verify-"));
    const go = all.find(({ language }) => language === "go")?.code ?? "";
    const goCall = (text: string) => `verify(${JSON.stringify(secret)}, header, ${JSON.stringify(text)})`;
    const set = Object.entries(headers).map(([name, value]) => `header.Set(${JSON.stringify(name)}, ${JSON.stringify(value)})`);
    const main = `func main() {\n\theader := http.Header{}\n\t${set.join("\n\t")}\n\tprintln(${goCall(body)}, ${goCall(`${body} `)})\n}`;
    writeFileSync(join(folder, "main.go"), go.replace("func main() {}", main));
    const inGo = await run("go", ["run", join(folder, "main.go")], "");
    rmSync(folder, { recursive: true });
    expect(inGo.err.trim()).toBe("true false");
  });
});

describe("The quick start", () => {
  it("leads to the first 200, the first 201 and the first verified webhook, typed as it stands", async () => {
    const steps = (await textOf("/docs/guides/quick-start.md")).split(/^## /m).slice(1);
    const commandOf = (step: number) => fences(steps[step - 1] ?? "")[0]?.code ?? "";
    expect(steps.findIndex((step) => step.startsWith("From here"))).toBe(6);
    expect([await statusOf("sh", commandOf(2)), await statusOf("sh", commandOf(3))]).toEqual(["200", "201"]);
    const { secret } = JSON.parse((await run("sh", [], commandOf(4))).out) as { secret: string };
    const [program = "", ...args] = commandOf(5).replace("whsec_...", secret).split(" ");
    const listening = spawn(program, args, { cwd: root, detached: true, stdio: ["ignore", "pipe", "inherit"] });
    let printed = "";
    listening.stdout.on("data", (chunk) => (printed += chunk));
    try {
      while (!printed.includes("4000")) await sleep(100);
      expect(await statusOf("sh", commandOf(3))).toBe("201");
      for (let waited = 0; waited < 100 && !printed.includes("task.created"); waited++) await sleep(100);
      expect(printed).toContain("signature valid");
    } finally {
      process.kill(-(listening.pid ?? 0), "SIGTERM");
    }
  });
});

describe("The documentation", () => {
  it("leads nowhere in vain, and has every page as Markdown", async () => {
    const seen = new Set<string>();
    const broken: string[] = [];
    const waiting = ["/docs"];
    while (waiting.length > 0) {
      const path = waiting.pop() as string;
      if (seen.has(path)) continue;
      seen.add(path);
      const response = await fetch(at(path), { headers: byAddressBar, redirect: "manual" });
      const html = await response.text();
      if (response.status !== 200) broken.push(`${path} answers ${response.status}`);
      if (!path.startsWith("/docs") || path.endsWith(".md")) continue;
      const asked = await fetch(at(path), { headers: { ...byAddressBar, Accept: "text/markdown" } });
      const [asMarkdown, byName] = [await asked.text(), await textOf(`${path}.md`)];
      if (asMarkdown !== byName || !asked.headers.get("Content-Type")?.startsWith("text/markdown"))
        broken.push(`${path} is not the same as Markdown`);
      const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
      for (const [, anchor] of html.matchAll(/href="#([^"]+)"/g)) if (!ids.has(anchor)) broken.push(`${path}#${anchor}`);
      const main = /<main[\s\S]*<\/main>/.exec(html)?.[0] ?? "";
      for (const [, href = ""] of main.matchAll(/href="(\/[^"#?]*)/g))
        if (/^\/(?:docs|api|llms|\.well-known)/.test(href)) waiting.push(href);
    }
    expect(broken).toEqual([]);
    expect(seen.size).toBeGreaterThan(150);
  }, 120_000);

  it("is Markdown for who likes that better, by the weights of Accept", async () => {
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
    expect(await textOf("/docs/guides/auth.md")).toContain("(/docs/guides/authentication.md)");
    const cut = await fetch(at("/docs/errors"), { redirect: "manual" });
    expect([cut.status, new URL(cut.headers.get("Location") ?? "", at("/")).pathname]).toEqual([302, "/docs"]);
  });

  it("has a page for every code and type that there is, and for no other", async () => {
    const index = await textOf("/docs.md");
    const named = (kind: string) => [...index.matchAll(new RegExp(`\\(/docs/${kind}/([\\w.]+)\\)`, "g"))].map(([, name]) => name);
    expect(named("errors").toSorted()).toEqual(Object.keys(failures).toSorted());
    expect(named("events")).toEqual(eventCatalogue.types);
    const unknown = await fetch(at("/docs/errors/account_suspendd"));
    const text = await unknown.text();
    expect([unknown.status, text.includes("The nearest pages")]).toEqual([404, true]);
    expect(await textOf("/docs/api/creatTask")).toContain("/docs/api/createTask");
  });

  it("explains every code that a place of an error may have", async () => {
    const used = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.tsx?$/.test(file))
      .flatMap((file) => [...readFileSync(join(root, "src", file), "utf8").matchAll(/\bcode: "(\w+)"/g)].map(([, code]) => code as string))
      .filter((code) => code !== "custom");
    expect([...new Set(used)].filter((code) => !(code in faultCodes))).toEqual([]);
  });

  it("finds what it has, and says what it looked through where it finds nothing", async () => {
    for (const [words, path] of [
      ["create a task", "/docs/api/createTask"],
      ["rate_limit_exceeded", "/docs/errors/rate_limit_exceeded"],
      ["webhook.test", "/docs/events/webhook.test"],
      ["Idempotency-Key", "/docs/guides/idempotency"],
      ["back off", "/docs/guides/limits"],
    ] as const)
      expect(await textOf(`/docs/search?q=${encodeURIComponent(words)}`), words).toContain(`href="${path}"`);
    expect(await textOf("/docs/search?q=zzzzz")).toContain("pages were looked through");
  });

  it("tells machines where what is", async () => {
    const links = [...(await textOf("/llms.txt")).matchAll(/\]\((http[^)]+)\)/g)].map(([, href = ""]) => href);
    expect(links.length).toBeGreaterThan(140);
    const catalogue = await fetch(at("/.well-known/api-catalog"));
    expect(catalogue.headers.get("Content-Type")).toContain("application/linkset+json");
    const { linkset } = (await catalogue.json()) as { linkset: Record<string, { href: string }[]>[] };
    const hrefs = Object.values(linkset[0] ?? {}).flatMap((targets) => (Array.isArray(targets) ? targets.map(({ href }) => href) : []));
    const answered = await Promise.all([...links.slice(0, 20), ...hrefs].map(async (href) => [href, (await fetch(href)).status] as const));
    expect(answered.filter(([, status]) => status !== 200)).toEqual([]);
    // Nobody has set SECURITY_CONTACT here.
    expect((await fetch(at("/.well-known/security.txt"))).status).toBe(404);
  });
});
