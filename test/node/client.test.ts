import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  createClient,
  dataOf,
  ProblemError,
  pages,
  problemCodes,
  verifyWebhook,
  WebhookVerificationError,
} from "../../client/src/index.ts";
import { type Received, startReceiver } from "../../scripts/receiving.ts";
import { root } from "../../scripts/root.ts";
import { failures } from "../../src/errors.ts";
import { run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// The typed client against the running service, and what public generators make of its document.

const folder = join(root, "client");
let worker: RunningWorker;
const baseUrl = () => `http://localhost:${worker.port}`;
const newClient = (more: object = {}) => createClient({ baseUrl: baseUrl(), apiKey: worker.key, ...more });

beforeAll(async () => {
  worker = await startWorker();
});

afterAll(async () => {
  await worker?.stop();
});

describe("The client", () => {
  it("makes, reads, changes, lists and deletes, typed from the document", async () => {
    const client = newClient();
    const made = await dataOf(client.POST("/api/v1/tasks", { body: { title: "From the client", labels: ["client"] } }));
    const path = { id: made.id };
    const changed = await dataOf(client.PATCH("/api/v1/tasks/{id}", { params: { path }, body: { status: "done" } }));
    expect([made.status, changed.status, changed.completed_at === null]).toEqual(["todo", "done", false]);
    for (let count = 0; count < 5; count++) await client.POST("/api/v1/tasks", { body: { title: `Page ${count}` } });
    const titles: string[] = [];
    for await (const task of pages(client, "/api/v1/tasks", { query: { limit: 2, q: "page" } })) titles.push(task.title);
    expect(titles).toEqual(["Page 4", "Page 3", "Page 2", "Page 1", "Page 0"]);
    expect((await client.DELETE("/api/v1/tasks/{id}", { params: { path } })).response.status).toBe(204);
  });

  it("rejects with the problem, by its code, with each place that was wrong", async () => {
    const error = await newClient()
      .POST("/api/v1/tasks", { body: { title: "" } })
      .catch((error: unknown) => error);
    expect(error).toBeInstanceOf(ProblemError);
    const { code, status, errors, requestId } = error as ProblemError;
    expect([code, status, errors[0]?.pointer]).toEqual(["invalid_body", 422, "/title"]);
    expect(requestId).toMatch(/^req_[0-9a-f]{32}$/);
    expect(problemCodes.toSorted()).toEqual(Object.keys(failures).toSorted());
  });

  it("waits as long as Retry-After says, sends the same Idempotency-Key again, and so acts once", async () => {
    const keys: (string | null)[] = [];
    const startedAt = Date.now();
    const client = newClient({
      // The first answer is lost on its way, in place of it comes what the service says while it is busy.
      fetch: async (request: Request) => {
        keys.push(request.headers.get("Idempotency-Key"));
        const answer = await fetch(request);
        return keys.length > 1 ? answer : new Response(null, { status: 503, headers: { "Retry-After": "1" } });
      },
    });
    const made = await dataOf(client.POST("/api/v1/tasks", { body: { title: "Once alone" } }));
    expect([keys.length, new Set(keys).size, keys[0] !== null, Date.now() - startedAt >= 1000]).toEqual([2, 1, true, true]);
    const found: string[] = [];
    for await (const task of pages(newClient(), "/api/v1/tasks", { query: { q: "once alone" } })) found.push(task.id);
    expect(found).toEqual([made.id]);
  });

  it("waits for no longer than it was told, and not for what nobody asked to send again", async () => {
    let sent = 0;
    const answering = (status: number, headers: Record<string, string>) =>
      newClient({
        maxWaitMs: 1000,
        fetch: async () => {
          sent += 1;
          return new Response("{}", { status, headers });
        },
      });
    await expect(answering(429, { "Retry-After": "3000" }).GET("/api/v1/me")).rejects.toThrow("429");
    await expect(answering(500, {}).GET("/api/v1/me")).rejects.toThrow("500");
    expect(sent).toBe(2);
  });

  it("gives up a wait with its request, and repeats no DELETE that may have arrived", async () => {
    const busy = newClient({ fetch: async () => new Response(null, { status: 503, headers: { "Retry-After": "30" } }) });
    const startedAt = Date.now();
    await expect(busy.GET("/api/v1/me", { signal: AbortSignal.timeout(100) })).rejects.toThrow("timeout");
    expect(Date.now() - startedAt).toBeLessThan(5000);
    let sent = 0;
    const broken = newClient({
      fetch: async () => {
        sent += 1;
        throw new TypeError("The connection broke off.");
      },
    });
    await expect(broken.DELETE("/api/v1/tasks/{id}", { params: { path: { id: "tsk_1" } } })).rejects.toThrow("broke off");
    expect(sent).toBe(1);
  });

  it("knows a genuine request of a webhook from any other", async () => {
    const received: Received[] = [];
    const receiver = await startReceiver(0, (each) => received.push(each));
    try {
      const client = newClient();
      const { id, secret } = await dataOf(client.POST("/api/v1/webhooks", { body: { url: receiver.url, event_types: ["webhook.test"] } }));
      await client.POST("/api/v1/webhooks/{id}/test", { params: { path: { id } } });
      while (received.length === 0) await sleep(50);
      const { headers, body } = received[0] as Received;
      const event = verifyWebhook(secret ?? "", headers, body);
      expect(event.type === "webhook.test" && event.data.webhook_id).toBe(id);
      expect(() => verifyWebhook(secret ?? "", headers, `${body} `)).toThrow(WebhookVerificationError);
    } finally {
      await receiver.stop();
    }
  });

  it("is built from the document as it is, and holds what is published", async () => {
    const made = join(mkdtempSync(join(tmpdir(), "client-")), "schema.ts");
    const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { scripts: { types: string } };
    const [command = "", ...args] = scripts.types.replace("src/schema.ts", made).split(" ");
    expect((await run(join(folder, "node_modules/.bin", command), args, { cwd: folder })).code).toBe(0);
    expect(readFileSync(join(folder, "src/schema.ts"), "utf8"), "npm --prefix client run types").toBe(readFileSync(made, "utf8"));
    const { code, out } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: folder });
    const files = (JSON.parse(out.slice(out.indexOf("["))) as { files: { path: string }[] }[])[0]?.files.map(({ path }) => path) ?? [];
    expect([code, files.includes("dist/index.js"), files.includes("dist/index.d.ts"), files.includes("README.md")]).toEqual([
      0,
      true,
      true,
      true,
    ]);
  });
});

describe.runIf(inject("isLong"))("Another generator", () => {
  it("makes a client of the document that compiles and works", async () => {
    const made = mkdtempSync(join(folder, "generated-"));
    try {
      const bin = (name: string) => join(folder, "node_modules/.bin", name);
      const generated = await run(
        bin("openapi-ts"),
        ["-i", join(root, "public/api/v1/openapi.json"), "-o", join(made, "api"), "--silent"],
        { cwd: folder },
      );
      expect(generated.err + generated.out).not.toMatch(/error/i);
      const main = join(made, "main.ts");
      writeFileSync(
        main,
        `import { client } from "./api/client.gen";
import { createTask, listTasks } from "./api/sdk.gen";
declare const process: { env: Record<string, string> };
client.setConfig({ baseUrl: process.env.BASE_URL!, auth: () => process.env.API_KEY! });
const made = await createTask({ body: { title: "From another generator" } });
const listed = await listTasks({ query: { q: "another generator" } });
console.log(made.response?.status, listed.data?.data[0]?.id === made.data?.id);
`,
      );
      const compilerOptions = {
        module: "esnext",
        moduleResolution: "bundler",
        target: "es2022",
        strict: true,
        skipLibCheck: true,
        noEmit: true,
        types: [],
      };
      writeFileSync(join(made, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
      const compiled = await run(bin("tsc"), ["-p", made], { cwd: folder });
      expect(compiled.out).toBe("");
      const bundle = join(made, "main.mjs");
      await run(join(root, "node_modules/.bin/esbuild"), [main, "--bundle", "--format=esm", "--platform=node", `--outfile=${bundle}`], {
        cwd: folder,
      });
      const worked = await run(process.execPath, [bundle], { env: { ...process.env, BASE_URL: baseUrl(), API_KEY: worker.key } });
      expect(worked.out.trim()).toBe("201 true");
    } finally {
      rmSync(made, { recursive: true, force: true });
    }
  });
});
