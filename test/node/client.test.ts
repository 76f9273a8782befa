/** @module-tag process */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
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
import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import { apiCodes } from "../../src/lib/errors/failure.ts";
import { listen } from "./listen.ts";
import { run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Tests two clients with a running Worker. The first is the typed client. The second is a client that a public generator creates from the
// OpenAPI document.

const folder = join(root, "client");
let worker: RunningWorker;
const baseUrl = () => `http://localhost:${worker.port}`;
const newClient = (options: object = {}) => createClient({ baseUrl: baseUrl(), apiKey: worker.key, ...options });

/**
 * Returns a `fetch` that loses the responses to the first `count` requests, as if the connection broke after the Worker handled each
 * request.
 */
function losingResponses(count: number) {
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

/** Returns a `fetch` that first returns each of `responses` in turn. All later requests go to the Worker. */
function respondingWith(...responses: { status: number; retryAfter?: string }[]) {
  const sent: Request[] = [];
  const send = async (request: Request) => {
    sent.push(request);
    const next = responses[sent.length - 1];
    if (next === undefined) return fetch(request);
    return new Response("not from the API", { status: next.status, headers: next.retryAfter ? { "Retry-After": next.retryAfter } : {} });
  };
  return { sent, fetch: send };
}

/** Starts an HTTP server on this machine. Returns its URL. */
async function startServer(listener: RequestListener) {
  const server = createServer(listener);
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${await listen(server)}`, stop };
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

/** Returns the error with which a call rejects. Fails if the call takes more than five seconds. */
async function rejectionSoon(call: Promise<unknown>): Promise<unknown> {
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
  it("creates, changes, lists and deletes by path, with types from the document", async () => {
    const client = newClient();
    const created = await dataOf(client.POST("/api/v1/tasks", { body: { title: "From the client", labels: ["client"] } }));
    const path = { id: created.id };
    const changed = await dataOf(client.PATCH("/api/v1/tasks/{id}", { params: { path }, body: { status: "done" } }));
    expect([created.status, changed.status, changed.completed_at === null]).toEqual(["todo", "done", false]);
    for (let count = 0; count < 5; count++) await client.tasks.create({ title: `Page ${count}` });
    const titles = (await collect(pages(client, "/api/v1/tasks", { query: { limit: 2, q: "page" } }))).map(({ title }) => title);
    expect(titles).toEqual(["Page 4", "Page 3", "Page 2", "Page 1", "Page 0"]);
    expect((await client.DELETE("/api/v1/tasks/{id}", { params: { path } })).response.status).toBe(204);
  });

  it("accepts a baseUrl with or without the path of the API, and rejects invalid options", async () => {
    for (const end of ["", "/", "/api/v1", "/api/v1/"])
      expect((await newClient({ baseUrl: baseUrl() + end }).me.get()).account.name, end).toBe("Acme");
    expect(() => newClient({ baseUrl: "localhost:8787" })).toThrow("baseUrl");
    for (const invalid of ["api", "127.0.0.1:9400"]) expect(() => newClient({ baseUrl: invalid })).toThrow("baseUrl must be a URL");
    expect(() => newClient({ apiKey: undefined })).toThrow("apiKey is missing");
    await expect((async () => newClient().tasks.get(""))()).rejects.toThrow("needs an id");
  });

  it.each([
    ["a sign-in page", () => new Response("<h1>Sign in", { headers: { "Content-Type": "text/html" } })],
    ["incomplete JSON", () => new Response('{"id":', { headers: { "Content-Type": "application/json" } })],
    ["an empty body", () => new Response("", { headers: { "Content-Type": "application/json" } })],
    ["a 204 without content", () => new Response(null, { status: 204 })],
    ["a 304 to an unconditional request", () => new Response(null, { status: 304 })],
  ])("rejects %s as an unexpected response", async (_, respond) => {
    const client = newClient({ fetch: async () => respond(), retries: 0 });
    for (const call of [client.me.get(), client.tasks.create({ title: "x" })])
      expect(await rejectionOf(call as Promise<unknown>)).toBeInstanceOf(UnexpectedResponseError);
  });

  it("follows no redirect, which could disclose the key or change a POST to a GET", async () => {
    const requests: string[] = [];
    const server = await startServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      response.writeHead(301, { Location: "/elsewhere" }).end();
    });
    const error = await rejectionOf(newClient({ baseUrl: server.url }).tasks.create({ title: "x" }));
    server.stop();
    expect([error instanceof UnexpectedResponseError, requests]).toEqual([true, ["POST /api/v1/tasks"]]);
  });

  it("rejects an empty ifMatch and an empty idempotencyKey, which would have no effect", async () => {
    const { id } = await newClient().tasks.create({ title: "As it is" });
    await expect((async () => newClient().tasks.update(id, { title: "Changed" }, { ifMatch: "" }))()).rejects.toThrow("empty");
    await expect((async () => newClient().tasks.create({ title: "x" }, { idempotencyKey: "" }))()).rejects.toThrow("empty");
    expect((await newClient().tasks.get(id)).title).toBe("As it is");
  });

  it("rejects with an error that names the code, each invalid member and the request id", async () => {
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
    expect(problemCodes.toSorted()).toEqual(apiCodes.toSorted());
  });

  it("rejects a change with precondition_failed if ifMatch names an older version", async () => {
    const client = newClient();
    const task = await client.tasks.create({ title: "First version" });
    const ifMatch = responseOf(task)?.headers.get("ETag") ?? "";
    await client.tasks.update(task.id, { title: "Second version" }, { ifMatch });
    const error = (await rejectionOf(client.tasks.update(task.id, { title: "Third version" }, { ifMatch }))) as ProblemError;
    expect([error.code, (await client.tasks.get(task.id)).title]).toEqual(["precondition_failed", "Second version"]);
  });

  it("reads the URL of the Worker in the OpenAPI document", async () => {
    const { servers } = (await newClient().openapi.get()) as unknown as { servers: { url: string }[] };
    expect(servers.map(({ url }) => url)).toEqual([baseUrl()]);
  });

  it("sends a User-Agent with the version of its package", async () => {
    const packageJson = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
    expect(version).toBe(packageJson.version);
    const { sent, fetch: send } = respondingWith();
    await newClient({ fetch: send }).me.get();
    expect(sent[0]?.headers.get("User-Agent")).toBe(`developer-overview-client/${version} (node/${process.versions.node})`);
  });

  it("has types that match the current OpenAPI document", async () => {
    const generated = join(mkdtempSync(join(tmpdir(), "client-")), "schema.ts");
    const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { scripts: { types: string } };
    const [command = "", ...args] = scripts.types.replace("src/schema.ts", generated).split(" ");
    expect((await run(join(folder, "node_modules/.bin", command), args, { cwd: folder })).code).toBe(0);
    expect(readFileSync(join(folder, "src/schema.ts"), "utf8"), "npm --prefix client run types").toBe(readFileSync(generated, "utf8"));
  });

  it("has one method for each operation of the document", () => {
    const document = JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8")) as JsonObject;
    const methods = Object.values(operations)
      .flatMap((ofResource) => Object.values(ofResource))
      .map((name) => name.replace("LIST", "GET").replace("?", ""));
    const documented = operationsIn(document).map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect(methods.toSorted()).toEqual(documented.toSorted());
  });
});

describe("A list of the client", () => {
  it("reads pages of a hundred items by default when it is iterated, and one page when it is awaited", async () => {
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

  it("stops when its signal aborts, between two items or during a request", async () => {
    const client = newClient();
    const abort = new AbortController();
    const titles: string[] = [];
    for (let count = 0; count < 3; count++) await client.tasks.create({ title: `Stopped ${count}` });
    const iteration = (async () => {
      for await (const { title } of client.tasks.list({ q: "stopped", limit: 2 }, { signal: abort.signal })) {
        titles.push(title);
        abort.abort(new Error("enough"));
      }
    })();
    await expect(iteration).rejects.toThrow("enough");
    expect(titles).toEqual(["Stopped 2"]);
    const hanging = newClient({ fetch: () => new Promise<never>(() => {}) });
    for (const list of [
      (signal: AbortSignal) => pages(hanging, "/api/v1/tasks", { signal }),
      (signal: AbortSignal) => hanging.events.list({}, { signal }),
    ])
      expect(await rejectionSoon(collect<unknown>(list(AbortSignal.timeout(100))))).toHaveProperty("name", "TimeoutError");
  });
});

describe("A failed request of the client", () => {
  it.each([500, 502, 503, 504])("is retried after %i with the same Idempotency-Key", async (status) => {
    const { sent, fetch: send } = respondingWith({ status }, { status });
    const { id } = await newClient({ fetch: send }).tasks.create({ title: `After ${status}` });
    const keys = sent.map(({ headers }) => headers.get("Idempotency-Key"));
    expect([keys.length, new Set(keys).size, keys[0] !== null]).toEqual([3, 1, true]);
    expect((await newClient().tasks.get(id)).title).toBe(`After ${status}`);
  });

  it("is retried after a lost connection, and creates one task", async () => {
    const { sent, fetch: send } = losingResponses(1);
    const created = await newClient({ fetch: send }).tasks.create({ title: "Once alone" });
    const found = await collect(newClient().tasks.list({ q: "once alone" }));
    expect([sent.length, found.map(({ id }) => id)]).toEqual([2, [created.id]]);
  });

  it("is retried if the connection breaks within the response", async () => {
    let requests = 0;
    const server = await startServer((_, response) => {
      requests += 1;
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "17" });
      // After the first part of the first response is sent, the server closes the connection.
      response.write('{"openapi":', () => requests === 1 && response.destroy());
      if (requests > 1) response.end('"3.1"}');
    });
    const document = await newClient({ baseUrl: server.url }).openapi.get();
    server.stop();
    expect([requests, document.openapi]).toEqual([2, "3.1"]);
  });

  it("is retried after the time in Retry-After, in seconds or as a date", async () => {
    for (const [name, retryAfter] of [
      ["seconds", () => "1"],
      ["date", () => new Date(Date.now() + 2000).toUTCString()],
    ] as const) {
      const startedAt = Date.now();
      await newClient({ fetch: respondingWith({ status: 503, retryAfter: retryAfter() }).fetch }).me.get();
      expect(Date.now() - startedAt, name).toBeGreaterThanOrEqual(1000);
    }
  });

  it.each(["1.5", "0.5", "5, 5", "-1", "+5", "1,5", "soon"])("is not retried at once after a Retry-After of %s", async (retryAfter) => {
    const startedAt = Date.now();
    await newClient({ fetch: respondingWith({ status: 503, retryAfter }).fetch }).me.get();
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(100);
  });

  it("succeeds if it is a deletion that an earlier attempt has made", async () => {
    const client = newClient();
    const task = await client.tasks.create({ title: "To delete" });
    const { sent, fetch: send } = losingResponses(1);
    await newClient({ fetch: send }).tasks.delete(task.id);
    expect(sent.length).toBe(2);
    expect(await rejectionOf(client.tasks.get(task.id))).toHaveProperty("code", "not_found");
    expect(await rejectionOf(client.tasks.delete(task.id))).toHaveProperty("code", "not_found");
  });

  it("is not retried if it is a change with ifMatch", async () => {
    const { id } = await newClient().tasks.create({ title: "To change" });
    const { sent, fetch: send } = losingResponses(1);
    const change = newClient({ fetch: send }).tasks.update(id, { title: "Changed" }, { ifMatch: "*" });
    expect(await rejectionOf(change)).toBeInstanceOf(ConnectionError);
    expect(sent.length).toBe(1);
  });

  it("is retried at most twice by default, and only after responses that allow a retry", async () => {
    for (const [responses, options, attempts] of [
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
      expect([(error as Error).message, sent.length]).toEqual([expect.stringContaining(`${responses[0]}`), attempts]);
    }
    const { sent, fetch: send } = respondingWith({ status: 429, retryAfter: "3000" });
    expect(await rejectionSoon(newClient({ fetch: send }).me.get())).toHaveProperty("status", 429);
    expect(sent.length).toBe(1);
  });

  it("is not retried, and has no Authorization header, if it reports a leaked key", async () => {
    const { sent, fetch: send } = losingResponses(1);
    expect(await rejectionOf(newClient({ fetch: send }).keys.revokeLeaked({ key: "none" }))).toBeInstanceOf(ConnectionError);
    expect([sent.length, sent[0]?.headers.has("Authorization")]).toEqual([1, false]);
  });

  it("rejects with the reason if no connection can be opened", async () => {
    const error = await rejectionOf(newClient({ baseUrl: "http://127.0.0.1:9", retries: 1 }).me.get());
    expect(error).toBeInstanceOf(ConnectionError);
    expect((error as Error).message).toMatch(/^The connection failed 2 times: .+/);
  });
});

describe("A slow call of the client", () => {
  /** Returns a `fetch` that never responds, and a function that returns the number of calls. */
  const hanging = () => {
    let sent = 0;
    return { count: () => sent, fetch: () => new Promise<never>(() => (sent += 1)) };
  };

  it("rejects after the timeouts of all attempts, or after the total timeout", async () => {
    const attempts = hanging();
    const error = await rejectionSoon(newClient({ fetch: attempts.fetch, timeoutMs: 100 }).me.get());
    expect([error instanceof TimeoutError, attempts.count()]).toEqual([true, 3]);
    const total = hanging();
    const call = newClient({ fetch: total.fetch }).me.get({ timeoutMs: 300, totalTimeoutMs: 400, retries: 100 });
    expect(await rejectionSoon(call)).toBeInstanceOf(TimeoutError);
    expect(total.count()).toBeLessThan(3);
  });

  it("rejects if the body of the response stalls", async () => {
    const server = await startServer((_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.write("{");
    });
    const error = await rejectionSoon(newClient({ baseUrl: server.url, timeoutMs: 200, retries: 0 }).me.get());
    server.stop();
    expect(error).toBeInstanceOf(TimeoutError);
  });

  it("rejects when its signal aborts: during an attempt, before a retry, or before the first attempt", async () => {
    const abortSoon = () => AbortSignal.timeout(100);
    const busy = respondingWith({ status: 503, retryAfter: "30" }, { status: 503, retryAfter: "30" }).fetch;
    const { count, fetch: send } = hanging();
    for (const call of [
      () => newClient({ fetch: busy }).me.get({ signal: abortSoon() }),
      () => newClient({ fetch: busy }).GET("/api/v1/me", { signal: abortSoon() }),
      () => newClient({ fetch: send }).tasks.create({ title: "x" }, { signal: abortSoon() }),
    ])
      expect(await rejectionSoon(call())).toHaveProperty("name", "TimeoutError");
    const reason = new Error("The caller is gone.");
    expect(await rejectionSoon(newClient({ fetch: send }).me.get({ signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(count()).toBeLessThanOrEqual(2);
  });
});

describe("The client, if a response with a secret is lost,", () => {
  it("rejects with the created resource and the call that creates a new secret", async () => {
    const { fetch: send } = losingResponses(1);
    const error = (await rejectionOf(newClient({ fetch: send }).keys.create({ name: "Lost" }))) as SecretLostError;
    expect(error).toBeInstanceOf(SecretLostError);
    expect(error.message).toContain(`client.keys.rotate("${error.data.id}")`);
    const { secret_key } = await newClient().keys.rotate(error.data.id);
    expect((await newClient({ apiKey: secret_key }).me.get()).key.id).toBe(error.data.id);
    const rotation = newClient({ fetch: losingResponses(1).fetch }).keys.rotate(error.data.id);
    expect(await rejectionOf(rotation)).toBeInstanceOf(SecretLostError);
  });

  it("rejects in the same way for calls by path", async () => {
    const call = newClient({ fetch: losingResponses(1).fetch }).POST("/api/v1/webhooks", {
      body: { url: "http://localhost:9/", event_types: ["*"] },
    });
    const error = (await rejectionOf(call)) as SecretLostError;
    expect(error.message).toContain(`client.webhooks.rotateSecret("${error.data.id}")`);
    expect((await newClient().webhooks.rotateSecret(error.data.id)).secret).toMatch(/^whsec_/);
    await newClient().webhooks.delete(error.data.id);
  });
});

describe("The function verifyWebhook", () => {
  it("accepts a request that is signed with any of the webhook's secrets, and rejects other requests", async () => {
    const received: Received[] = [];
    const receiver = await startReceiver(0, (each) => received.push(each));
    try {
      const client = newClient();
      const { id, secret } = await client.webhooks.create({ url: receiver.url, event_types: ["webhook.test"] });
      const rotated = await client.webhooks.rotateSecret(id);
      await client.webhooks.test(id);
      const { headers, body } = await vi.waitUntil(() => received[0], { timeout: 30_000, interval: 50 });
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
      // `verifyWebhook` ignores missing secrets at any position in the list. If no rotation is in progress, there is no second secret.
      expect(verifyWebhook([undefined, "", rotated.secret, undefined], headers, body).type).toBe("webhook.test");
      expect(() => verifyWebhook([rotated.secret, undefined], headers, `${body} `)).toThrow(WebhookVerificationError);
      expect(() => verifyWebhook([rotated.secret, "whsec_not base64"], headers, body)).toThrow(TypeError);
    } finally {
      await receiver.stop();
    }
  });
});

describe.runIf(inject("isLong"))("A client of the generator openapi-ts", { tags: ["long"] }, () => {
  it("compiles and works", async () => {
    const generated = mkdtempSync(join(folder, "generated-"));
    try {
      const bin = (name: string) => join(folder, "node_modules/.bin", name);
      const generation = await run(
        bin("openapi-ts"),
        ["-i", join(root, "public/api/v1/openapi.json"), "-o", join(generated, "api"), "--silent"],
        { cwd: folder },
      );
      expect(generation.err + generation.out).not.toMatch(/error/i);
      const main = join(generated, "main.ts");
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
      writeFileSync(join(generated, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
      const compilation = await run(bin("tsc"), ["-p", generated], { cwd: folder });
      expect(compilation.out).toBe("");
      const bundle = join(generated, "main.mjs");
      await run(join(root, "node_modules/.bin/esbuild"), [main, "--bundle", "--format=esm", "--platform=node", `--outfile=${bundle}`], {
        cwd: folder,
      });
      const program = await run(process.execPath, [bundle], { env: { ...process.env, BASE_URL: baseUrl(), API_KEY: worker.key } });
      expect(program.out.trim()).toBe("201 true");
    } finally {
      rmSync(generated, { recursive: true, force: true });
    }
  });
});
