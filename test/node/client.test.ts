import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  ConnectionError,
  createClient,
  dataOf,
  ProblemError,
  pages,
  problemCodes,
  responseOf,
  SecretLostError,
  TimeoutError,
  UnexpectedResponseError,
  verifyWebhook,
  version,
  WebhookVerificationError,
} from "../../client/src/index.ts";
import { operations } from "../../client/src/operations.ts";
import { type Received, startReceiver } from "../../scripts/receiving.ts";
import { root } from "../../scripts/root.ts";
import { failures } from "../../src/errors/failure.ts";
import { type JsonObject, operationsIn } from "../../src/openapi/document.ts";
import { run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// The typed client against the running service, and what public generators make of its document.

const folder = join(root, "client");
let worker: RunningWorker;
const baseUrl = () => `http://localhost:${worker.port}`;
const newClient = (more: object = {}) => createClient({ baseUrl: baseUrl(), apiKey: worker.key, ...more });

/** Sends to the service, but loses the responses to the first `count` requests: the connection broke after it acted. */
function losing(count: number) {
  const sent: Request[] = [];
  const send = async (request: Request) => {
    sent.push(request);
    const response = await fetch(request);
    if (sent.length > count) return response;
    await response.arrayBuffer();
    throw new TypeError("The connection broke off.");
  };
  return { sent, fetch: send };
}

/** Responds with each of these in turn, then by the service. */
function respondingWith(...responses: { status: number; retryAfter?: string }[]) {
  const sent: Request[] = [];
  const send = async (request: Request) => {
    sent.push(request);
    const next = responses[sent.length - 1];
    if (next === undefined) return fetch(request);
    return new Response("no service of ours", { status: next.status, headers: next.retryAfter ? { "Retry-After": next.retryAfter } : {} });
  };
  return { sent, fetch: send };
}

const rejectionOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => null,
    (error: unknown) => error,
  );

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** A call that must have ended in five seconds, though what it waits for takes longer. */
async function soon(call: Promise<unknown>): Promise<unknown> {
  const startedAt = Date.now();
  const error = await rejectionOf(call);
  expect(Date.now() - startedAt).toBeLessThan(5000);
  return error;
}

beforeAll(async () => {
  worker = await startWorker();
});

afterAll(async () => {
  await worker?.stop();
});

describe("The client", () => {
  it("makes, reads, changes, lists and deletes by path, typed from the document", async () => {
    const client = newClient();
    const made = await dataOf(client.POST("/api/v1/tasks", { body: { title: "From the client", labels: ["client"] } }));
    const path = { id: made.id };
    const changed = await dataOf(client.PATCH("/api/v1/tasks/{id}", { params: { path }, body: { status: "done" } }));
    expect([made.status, changed.status, changed.completed_at === null]).toEqual(["todo", "done", false]);
    for (let count = 0; count < 5; count++) await client.tasks.create({ title: `Page ${count}` });
    const titles = (await collect(pages(client, "/api/v1/tasks", { query: { limit: 2, q: "page" } }))).map(({ title }) => title);
    expect(titles).toEqual(["Page 4", "Page 3", "Page 2", "Page 1", "Page 0"]);
    expect((await client.DELETE("/api/v1/tasks/{id}", { params: { path } })).response.status).toBe(204);
  });

  it("takes the URL of the service with and without the path of the API, and refuses what is none", async () => {
    for (const end of ["", "/", "/api/v1", "/api/v1/"])
      expect((await newClient({ baseUrl: baseUrl() + end }).me.get()).account.name, end).toBe("Acme");
    expect(() => newClient({ baseUrl: "localhost:8787" })).toThrow("baseUrl");
    for (const none of ["api", "127.0.0.1:9400"]) expect(() => newClient({ baseUrl: none })).toThrow("baseUrl must be a URL");
    expect(() => newClient({ apiKey: undefined })).toThrow("apiKey is missing");
    await expect((async () => newClient().tasks.get(""))()).rejects.toThrow("needs an id");
  });

  it.each([
    ["a sign-in page", () => new Response("<h1>Sign in", { headers: { "Content-Type": "text/html" } })],
    ["JSON that is cut", () => new Response('{"id":', { headers: { "Content-Type": "application/json" } })],
    ["an empty body", () => new Response("", { headers: { "Content-Type": "application/json" } })],
    ["no content", () => new Response(null, { status: 204 })],
    ["what was not asked for by a tag", () => new Response(null, { status: 304 })],
  ])("takes %s for no success of the service", async (_, respond) => {
    const client = newClient({ fetch: async () => respond(), retries: 0 });
    for (const call of [client.me.get(), client.tasks.create({ title: "x" })])
      expect(await rejectionOf(call as Promise<unknown>)).toBeInstanceOf(UnexpectedResponseError);
  });

  it("follows no redirect: it would give the key away, or make a GET of a POST", async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(301, { Location: "/elsewhere" }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = newClient({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    const error = await rejectionOf(client.tasks.create({ title: "x" }));
    server.close();
    expect([error instanceof UnexpectedResponseError, asked]).toEqual([true, ["POST /api/v1/tasks"]]);
  });

  it("refuses an empty condition or key, which would be sent as none", async () => {
    const { id } = await newClient().tasks.create({ title: "As it is" });
    await expect((async () => newClient().tasks.update(id, { title: "Changed" }, { ifMatch: "" }))()).rejects.toThrow("empty");
    await expect((async () => newClient().tasks.create({ title: "x" }, { idempotencyKey: "" }))()).rejects.toThrow("empty");
    expect((await newClient().tasks.get(id)).title).toBe("As it is");
  });

  it("rejects with the problem, which names each member and the request", async () => {
    const error = (await rejectionOf(newClient().tasks.create({ title: 7, labels: "a" } as never))) as ProblemError;
    expect(error).toBeInstanceOf(ProblemError);
    const { code, status, errors, requestId, message } = error;
    expect([code, status, errors.map(({ pointer }) => pointer)]).toEqual(["invalid_body", 422, ["/title", "/labels"]]);
    expect(requestId).toMatch(/^req_[0-9a-f]{32}$/);
    expect(message).toBe(`422 invalid_body: title must be a string; labels must be a list (request ${requestId})`);
    const absent = (await rejectionOf(newClient().tasks.create({} as never))) as ProblemError;
    expect(absent.message).toContain("422 invalid_body: title is required (request req_");
    const query = (await rejectionOf(newClient().tasks.list({ limit: 1000 }).then())) as ProblemError;
    expect(query.message).toContain("400 invalid_parameter: parameter limit must be a whole number from 1 to 100 (request req_");
    const missing = (await rejectionOf(newClient().tasks.get("tsk_1"))) as ProblemError;
    expect(missing.message).toMatch(/^404 not_found: .+[^.] \(request req_[0-9a-f]{32}\)$/);
    expect(problemCodes.toSorted()).toEqual(Object.keys(failures).toSorted());
  });

  it("changes only the version that its caller has seen", async () => {
    const client = newClient();
    const task = await client.tasks.create({ title: "First version" });
    const ifMatch = responseOf(task)?.headers.get("ETag") ?? "";
    await client.tasks.update(task.id, { title: "Second version" }, { ifMatch });
    const error = (await rejectionOf(client.tasks.update(task.id, { title: "Third version" }, { ifMatch }))) as ProblemError;
    expect([error.code, (await client.tasks.get(task.id)).title]).toEqual(["precondition_failed", "Second version"]);
  });

  it("is told by the document where the service is", async () => {
    const { servers } = (await newClient().openapi.get()) as unknown as { servers: { url: string }[] };
    expect(servers.map(({ url }) => url)).toEqual([baseUrl()]);
  });

  it("says which client it is, in the version of its package", async () => {
    const packageJson = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
    expect(version).toBe(packageJson.version);
    const { sent, fetch: send } = respondingWith();
    await newClient({ fetch: send }).me.get();
    expect(sent[0]?.headers.get("User-Agent")).toBe(`developer-overview-client/${version} (node/${process.versions.node})`);
  });

  it("is built from the document as it is", async () => {
    const made = join(mkdtempSync(join(tmpdir(), "client-")), "schema.ts");
    const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { scripts: { types: string } };
    const [command = "", ...args] = scripts.types.replace("src/schema.ts", made).split(" ");
    expect((await run(join(folder, "node_modules/.bin", command), args, { cwd: folder })).code).toBe(0);
    expect(readFileSync(join(folder, "src/schema.ts"), "utf8"), "npm --prefix client run types").toBe(readFileSync(made, "utf8"));
  });
});

describe("A list", () => {
  it("is read in pages of a hundred, unless its caller says otherwise, and one page where it is awaited", async () => {
    const { sent, fetch: send } = respondingWith();
    const client = newClient({ fetch: send });
    const limits = () => sent.splice(0).map(({ url }) => new URL(url).searchParams.get("limit"));
    await collect(client.keys.list());
    await collect(pages(client, "/api/v1/keys"));
    expect(limits()).toEqual(["100", "100"]);
    for (let count = 0; count < 3; count++) await client.tasks.create({ title: `Listed ${count}` });
    sent.length = 0;
    expect((await collect(client.tasks.list({ q: "listed", limit: 2 }))).map(({ title }) => title)).toEqual([
      "Listed 2",
      "Listed 1",
      "Listed 0",
    ]);
    expect(limits()).toEqual(["2", "2"]);
    const page = await client.tasks.list({ q: "listed", limit: 1 });
    expect([page.data.length, page.has_more, limits()]).toEqual([1, true, ["1"]]);
    await client.tasks.list();
    expect(limits()).toEqual([null]);
  });

  it("stops with its signal, between two items and in a request", async () => {
    const client = newClient();
    const stop = new AbortController();
    const seen: string[] = [];
    for (let count = 0; count < 3; count++) await client.tasks.create({ title: `Stopped ${count}` });
    const listed = (async () => {
      for await (const { title } of client.tasks.list({ q: "stopped", limit: 2 }, { signal: stop.signal })) {
        seen.push(title);
        stop.abort(new Error("enough"));
      }
    })();
    await expect(listed).rejects.toThrow("enough");
    expect(seen).toEqual(["Stopped 2"]);
    const hanging = newClient({ fetch: () => new Promise<never>(() => {}) });
    expect(await soon(collect(pages(hanging, "/api/v1/tasks", { signal: AbortSignal.timeout(100) })))).toHaveProperty(
      "name",
      "TimeoutError",
    );
    expect(await soon(collect(hanging.events.list({}, { signal: AbortSignal.timeout(100) })))).toHaveProperty("name", "TimeoutError");
  });
});

describe("What failed on its way", () => {
  it.each([500, 502, 503, 504])("is sent again after %i, with the same Idempotency-Key", async (status) => {
    const { sent, fetch: send } = respondingWith({ status }, { status });
    const { id } = await newClient({ fetch: send }).tasks.create({ title: `After ${status}` });
    const keys = sent.map(({ headers }) => headers.get("Idempotency-Key"));
    expect([keys.length, new Set(keys).size, keys[0] !== null]).toEqual([3, 1, true]);
    expect((await newClient().tasks.get(id)).title).toBe(`After ${status}`);
  });

  it("is sent again after a lost connection, and acts once", async () => {
    const { sent, fetch: send } = losing(1);
    const made = await newClient({ fetch: send }).tasks.create({ title: "Once alone" });
    const found = await collect(newClient().tasks.list({ q: "once alone" }));
    expect([sent.length, found.map(({ id }) => id)]).toEqual([2, [made.id]]);
  });

  it("is sent again where the connection breaks within the response", async () => {
    let requests = 0;
    const server = createServer((_, response) => {
      requests += 1;
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "17" });
      response.write('{"openapi":');
      if (requests === 1) setTimeout(() => response.destroy(), 50);
      else response.end('"3.1"}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const document = await newClient({ baseUrl: `http://127.0.0.1:${port}` }).openapi.get();
    server.close();
    expect([requests, document.openapi]).toEqual([2, "3.1"]);
  });

  it("waits as long as Retry-After says, in seconds or as a date", async () => {
    for (const [name, retryAfter] of [
      ["seconds", () => "1"],
      ["date", () => new Date(Date.now() + 2000).toUTCString()],
    ] as const) {
      const startedAt = Date.now();
      await newClient({ fetch: respondingWith({ status: 503, retryAfter: retryAfter() }).fetch }).me.get();
      expect(Date.now() - startedAt, name).toBeGreaterThanOrEqual(1000);
    }
  });

  it("counts a deletion as done that an earlier attempt has made, and repeats no change with a condition", async () => {
    const client = newClient();
    const task = await client.tasks.create({ title: "To delete" });
    const deleting = losing(1);
    await newClient({ fetch: deleting.fetch }).tasks.delete(task.id);
    expect([deleting.sent.length, await rejectionOf(client.tasks.get(task.id))]).toEqual([
      2,
      expect.objectContaining({ code: "not_found" }),
    ]);
    expect(await rejectionOf(client.tasks.delete(task.id))).toHaveProperty("code", "not_found");
    const other = await client.tasks.create({ title: "To change" });
    const changing = losing(1);
    const change = newClient({ fetch: changing.fetch }).tasks.update(other.id, { title: "Changed" }, { ifMatch: "*" });
    expect(await rejectionOf(change)).toBeInstanceOf(ConnectionError);
    expect(changing.sent.length).toBe(1);
  });

  it("is not sent again more often than it may be, nor where nobody asked for it", async () => {
    for (const [responses, options, sends] of [
      [[500, 500, 500, 500], {}, 3],
      [[500, 500], { retries: 1 }, 2],
      [[500], { retries: 0 }, 1],
      [[501], {}, 1],
      [[400], {}, 1],
      [[429], {}, 1],
    ] as const) {
      const { sent, fetch: send } = respondingWith(...responses.map((status) => ({ status })));
      const error = await rejectionOf(newClient({ fetch: send, ...options }).me.get());
      expect(error).toBeInstanceOf(UnexpectedResponseError);
      expect([(error as Error).message, sent.length]).toEqual([expect.stringContaining(`${responses[0]}`), sends]);
    }
    const { sent, fetch: send } = respondingWith({ status: 429, retryAfter: "3000" });
    expect(await soon(newClient({ fetch: send }).me.get())).toHaveProperty("status", 429);
    expect(sent.length).toBe(1);
    const report = losing(1);
    expect(await rejectionOf(newClient({ fetch: report.fetch }).keys.revokeLeaked({ key: "none" }))).toBeInstanceOf(ConnectionError);
    expect([report.sent.length, report.sent[0]?.headers.has("Authorization")]).toEqual([1, false]);
  });

  it("says why there was no connection", async () => {
    const error = await rejectionOf(newClient({ baseUrl: "http://127.0.0.1:9", retries: 1 }).me.get());
    expect(error).toBeInstanceOf(ConnectionError);
    expect((error as Error).message).toMatch(/^The connection failed 2 times: .+/);
  });
});

describe("A call that takes long", () => {
  const hanging = () => {
    let sent = 0;
    return { count: () => sent, fetch: () => new Promise<never>(() => (sent += 1)) };
  };

  it("ends after the time of each attempt, and after the time of all", async () => {
    const each = hanging();
    const error = await soon(newClient({ fetch: each.fetch, timeoutMs: 100 }).me.get());
    expect([error instanceof TimeoutError, each.count()]).toEqual([true, 3]);
    const all = hanging();
    expect(await soon(newClient({ fetch: all.fetch }).me.get({ timeoutMs: 300, totalTimeoutMs: 400, retries: 100 }))).toBeInstanceOf(
      TimeoutError,
    );
    expect(all.count()).toBeLessThan(3);
  });

  it("ends where the body of the response stalls", async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.write("{");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const error = await soon(newClient({ baseUrl: `http://127.0.0.1:${port}`, timeoutMs: 200, retries: 0 }).me.get());
    server.closeAllConnections();
    server.close();
    expect(error).toBeInstanceOf(TimeoutError);
  });

  it("ends at once with its signal: in an attempt, in a wait, and before it is sent", async () => {
    const stop = () => AbortSignal.timeout(100);
    const busy = respondingWith({ status: 503, retryAfter: "30" }, { status: 503, retryAfter: "30" }).fetch;
    expect(await soon(newClient({ fetch: busy }).me.get({ signal: stop() }))).toHaveProperty("name", "TimeoutError");
    expect(await soon(newClient({ fetch: busy }).GET("/api/v1/me", { signal: stop() }))).toHaveProperty("name", "TimeoutError");
    const { count, fetch: send } = hanging();
    expect(await soon(newClient({ fetch: send }).tasks.create({ title: "x" }, { signal: stop() }))).toHaveProperty("name", "TimeoutError");
    const reason = new Error("Nobody waits any more.");
    expect(await soon(newClient({ fetch: send }).me.get({ signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(count()).toBeLessThanOrEqual(2);
  });
});

describe("A secret that is shown once", () => {
  it("and was lost on its way rejects with what has it and how to make a new one, by method and by path", async () => {
    const made = losing(1);
    const error = (await rejectionOf(newClient({ fetch: made.fetch }).keys.create({ name: "Lost" }))) as SecretLostError;
    expect(error).toBeInstanceOf(SecretLostError);
    expect(error.message).toContain(`client.keys.rotate("${error.data.id}")`);
    const { secret_key } = await newClient().keys.rotate(error.data.id);
    expect((await newClient({ apiKey: secret_key }).me.get()).key.id).toBe(error.data.id);
    expect(await rejectionOf(newClient({ fetch: losing(1).fetch }).keys.rotate(error.data.id))).toBeInstanceOf(SecretLostError);
    const call = newClient({ fetch: losing(1).fetch }).POST("/api/v1/webhooks", {
      body: { url: "http://localhost:9/", event_types: ["*"] },
    });
    const webhook = (await rejectionOf(call)) as SecretLostError;
    expect(webhook.message).toContain(`client.webhooks.rotateSecret("${webhook.data.id}")`);
    expect((await newClient().webhooks.rotateSecret(webhook.data.id)).secret).toMatch(/^whsec_/);
    await newClient().webhooks.delete(webhook.data.id);
  });
});

describe("A request of a webhook", () => {
  it("is genuine by any of the webhook's secrets, and by no other", async () => {
    const received: Received[] = [];
    const receiver = await startReceiver(0, (each) => received.push(each));
    try {
      const client = newClient();
      const { id, secret } = await client.webhooks.create({ url: receiver.url, event_types: ["webhook.test"] });
      const rotated = await client.webhooks.rotateSecret(id);
      await client.webhooks.test(id);
      while (received.length === 0) await sleep(50);
      const { headers, body } = received[0] as Received;
      for (const secrets of [rotated.secret, [secret, rotated.secret], [rotated.secret, secret]]) {
        const event = verifyWebhook(secrets, headers, body);
        expect(event.type === "webhook.test" && event.data.webhook_id).toBe(id);
      }
      expect(verifyWebhook(rotated.secret, new Headers(headers), new TextEncoder().encode(body)).type).toBe("webhook.test");
      for (const [secrets, text] of [
        [secret, body],
        [[secret, secret], body],
        [rotated.secret, `${body} `],
      ] as const)
        expect(() => verifyWebhook(secrets, headers, text)).toThrow(WebhookVerificationError);
      for (const none of [[], [undefined], ["", undefined], undefined])
        expect(() => verifyWebhook(none, headers, body)).toThrow("needs a secret");
      // What is not set, while no rotation runs, is passed over wherever it stands.
      expect(verifyWebhook([undefined, "", rotated.secret, undefined], headers, body).type).toBe("webhook.test");
      expect(() => verifyWebhook([rotated.secret, undefined], headers, `${body} `)).toThrow(WebhookVerificationError);
      expect(() => verifyWebhook([rotated.secret, "whsec_not base64"], headers, body)).toThrow(TypeError);
    } finally {
      await receiver.stop();
    }
  });
});

describe("The methods of the client", () => {
  it("are those of the document: each operation has one", () => {
    const document = JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8")) as JsonObject;
    const named = Object.values(operations)
      .flatMap((methods) => Object.values(methods))
      .map((name) => name.replace("LIST", "GET").replace("?", ""));
    const documented = operationsIn(document).map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect(named.toSorted()).toEqual(documented.toSorted());
  });
});

describe.runIf(inject("isLong"))("Another generator", { tags: ["long"] }, () => {
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
