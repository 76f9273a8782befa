import { describe, expect, it, vi } from "vitest";
import { type Answer, type Call, call, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken, usedOf, verify } from "../support/team.ts";

const createTask = (key: string, body: unknown, headers: Record<string, string> = {}) =>
  call("POST", "/api/v1/tasks", { key, body, ...headers });
/** Sends bodies of 60 KB that lack their last character, with each key in turn. `release` sends the last characters, and returns all statuses. */
function holdBodies(keys: readonly string[], count: number): { answers: Answer[]; release: () => Promise<number[]> } {
  const controllers: ReadableStreamDefaultController<Uint8Array>[] = [];
  const answers: Answer[] = [];
  const text = `{"title":"x","description":"${"y".repeat(60_000)}"`;
  const incomplete = () =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(text));
        controllers.push(controller);
      },
    });
  const requests = Array.from({ length: count }, async (_, n) => {
    const answer = await createTask(keys[n % keys.length] ?? "", incomplete());
    answers.push(answer);
    return answer.status;
  });
  const release = () => {
    for (const controller of controllers) {
      try {
        controller.enqueue(new TextEncoder().encode("}"));
        controller.close();
      } catch {
        // If the Worker rejected the request, the Worker has already canceled the request body.
      }
    }
    return Promise.all(requests);
  };
  return { answers, release };
}

const gzip = async (text: string): Promise<Uint8Array> => {
  const compressed = new Response(text).body?.pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(compressed).arrayBuffer());
};

const fieldErrorsOf = ({ body }: { body: { errors?: { pointer?: string; code: string }[] } }) =>
  body.errors?.map(({ pointer, code }) => [pointer, code]);

describe("The API", () => {
  it.each([
    ["an empty body", ""],
    ["a body with a bare word", "hello"],
    ["a body with half an object", '{"title": "x"'],
    ["a body with a comment", '{"title": "x" /* */}'],
    ["a body with a raw control character", '{"title": "a\u0001b"}'],
    ["a body that is not valid UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  ])("rejects %s as malformed JSON", async (_, body) => {
    const { key } = await makeTenant();
    const response = await createTask(key, body);
    expect([response.status, response.body.code]).toEqual([400, "malformed_json"]);
  });

  it("rejects a body with thirty thousand nested lists like any other invalid body", async () => {
    const { key } = await makeTenant();
    const depth = 30_000;
    for (const body of [
      `{"title":${"[".repeat(depth)}${"]".repeat(depth)}}`,
      `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`,
      "[".repeat(depth) + "]".repeat(depth),
    ]) {
      expect((await createTask(key, body)).status).toBe(422);
    }
    expect((await createTask(key, "[".repeat(60_000))).status).toBe(400);
  });

  it("names every invalid member of a body by its JSON pointer", async () => {
    const { key } = await makeTenant();
    const response = await createTask(key, {
      description: 7,
      status: "later",
      priority: null,
      labels: ["ok", 3, ""],
      due_at: "2030-01-01T00:00:00",
      "un/kno~wn": 1,
    });
    expect(response.status).toBe(422);
    expect(new Map(fieldErrorsOf(response) as [string, string][])).toEqual(
      new Map([
        ["/title", "required"],
        ["/description", "invalid_type"],
        ["/status", "invalid_value"],
        ["/priority", "invalid_value"],
        ["/labels/1", "invalid_type"],
        ["/labels/2", "too_small"],
        ["/due_at", "invalid_format"],
        ["/un~1kno~0wn", "unknown_member"],
      ]),
    );
  });

  it.each([
    ["__proto__", '{"title":"x","__proto__":{"status":"done"}}'],
    ["id", '{"title":"x","id":"tsk_1"}'],
    ["account_id", '{"title":"x","account_id":"acc_1"}'],
  ])("rejects a body with the unknown member %s", async (name, body) => {
    const { key } = await makeTenant();
    expect(fieldErrorsOf(await createTask(key, body))).toEqual([[`/${name}`, "unknown_member"]]);
  });

  it("limits the number and the length of the field errors that it returns", async () => {
    const { key } = await makeTenant();
    const many = await createTask(key, Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`m${index}`, 1])));
    expect(many.body.errors.length).toBe(100);
    const long = await createTask(key, { title: "x", ["é".repeat(20_000)]: 1 });
    expect(long.body.errors[0].pointer.length).toBeLessThan(200);
  });

  it("rejects texts with NUL or a lone surrogate, and accepts other Unicode characters", async () => {
    const { key } = await makeTenant();
    for (const title of ["a\0b", "\ud800", "x\udc00y"]) {
      const response = await createTask(key, `{"title":${JSON.stringify(title)}}`);
      expect([response.status, fieldErrorsOf(response)]).toEqual([422, [["/title", "invalid_text"]]]);
    }
    // A length is a number of characters.
    expect((await createTask(key, { title: "😀".repeat(200) })).status).toBe(201);
    expect(fieldErrorsOf(await createTask(key, { title: "😀".repeat(201) }))).toEqual([["/title", "too_big"]]);
    expect((await createTask(key, { title: "😀 emoji, עברית, \u202e" })).body.title).toBe("😀 emoji, עברית, \u202e");
  });

  it("rejects bodies of more than 64 KiB, with or without a stated length", async () => {
    const { key } = await makeTenant();
    const ofLength = (length: number) => `{"title":"${"x".repeat(length - 12)}"}`;
    const streamed = (text: string) =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < text.length; at += 10_000) controller.enqueue(new TextEncoder().encode(text.slice(at, at + 10_000)));
          controller.close();
        },
      });
    expect((await createTask(key, ofLength(65_536))).status).toBe(422);
    for (const body of [ofLength(65_537), streamed(ofLength(65_537)), streamed(ofLength(300_000))]) {
      const response = await createTask(key, body);
      expect([response.status, response.body.code]).toEqual([413, "body_too_large"]);
    }
  });

  it.each([
    ...["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "json", ""],
    ...["application/json5", "application/merge-patch+json", "application/json; charset=iso-8859-1", "application/json; charset=utf-16"],
  ])("rejects a body of the media type %j", async (mediaType) => {
    const { key } = await makeTenant();
    const response = await createTask(key, '{"title":"x"}', { "Content-Type": mediaType });
    expect([response.status, response.body.code]).toEqual([415, "unsupported_media_type"]);
  });

  it.each(["gzip", "GZIP", "br", "deflate", "zstd", "identity, gzip", "x-nothing"])(
    "rejects a body with the Content-Encoding %s, and returns Accept-Encoding: identity",
    async (encoding) => {
      const { key } = await makeTenant();
      const response = await createTask(key, await gzip('{"title":"x"}'), { "Content-Encoding": encoding });
      expect([response.status, response.body.code, response.headers.get("Accept-Encoding")]).toEqual([
        415,
        "unsupported_media_type",
        "identity",
      ]);
    },
  );

  it("accepts JSON with parameters in its media type", async () => {
    const { key } = await makeTenant();
    for (const mediaType of [
      "Application/JSON; charset=utf-8",
      "application/json ; charset=utf8",
      'application/json; charset="utf-8"',
      "application/json;",
    ]) {
      expect((await createTask(key, '{"title":"x"}', { "Content-Type": mediaType })).status).toBe(201);
    }
  });

  it("lets no account hold more than an eighth of the memory for bodies, by any number of its keys", async () => {
    const { accountId, key } = await makeTenant();
    const [victim, token] = [await makeTenant(), await makeToken(["verify"])];
    const keys = [key, ...(await Promise.all(Array.from({ length: 9 }, () => makeKey(accountId)))).map((made) => made.key)];
    const held = holdBodies(keys, 200);
    const denied = await vi.waitUntil(() => held.answers[0], { timeout: 5000, interval: 10 });
    expect([denied.status, denied.body.code]).toEqual([503, "unavailable"]);
    const large = { title: "x", description: "y".repeat(9000) };
    expect((await createTask(victim.key, large)).status).toBe(201);
    expect((await verify(token, { key: victim.key, path: `/${"p".repeat(20_000)}` })).body.allowed).toBe(true);
    // A small body needs no share.
    expect((await createTask(key, { title: "x" })).status).toBe(201);
    const statuses = await held.release();
    expect(new Set(statuses)).toEqual(new Set([422, 503]));
    // 2 MiB are room for 32 bodies of 64 KiB.
    expect(statuses.filter((status) => status === 422)).toHaveLength(32);
    expect((await createTask(key, large)).status).toBe(201);
  });

  it.each<[string, (tenant: Tenant) => Promise<string>, number]>([
    [
      "revoked",
      async ({ accountId }) => {
        const { key, keyId } = await makeKey(accountId);
        await operate("DELETE", `/keys/${keyId}`);
        return key;
      },
      401,
    ],
    ["expired", async ({ accountId }) => (await makeKey(accountId, { expiresAt: Date.now() + 50 })).key, 401],
    [
      "used up",
      async ({ accountId }) => {
        const { key } = await makeKey(accountId, { hourlyLimit: 1 });
        await call("GET", "/api/v1/me", { key });
        return key;
      },
      429,
    ],
  ])("holds nothing beyond 4 KiB for keys that are %s, and counts nothing when it looks", async (_, makeDenied, status) => {
    const tenant = await makeTenant();
    const keys = await Promise.all(Array.from({ length: 10 }, () => makeDenied(tenant)));
    await new Promise((resolve) => setTimeout(resolve, 60));
    // No body ends. All requests are denied before.
    const held = holdBodies(keys, 40);
    await vi.waitUntil(() => held.answers.length === 40, { timeout: 5000, interval: 10 });
    expect(held.answers.map((answer) => answer.status)).toEqual(held.answers.map(() => status));
    await held.release();
    const before = await usedOf(tenant);
    expect((await createTask(tenant.key, { title: "x", description: "y".repeat(9000) })).status).toBe(201);
    expect(await usedOf(tenant)).toBe(before + 1);
  });

  it.each([
    ["me?=1", ""],
    ["users?limit=0", "limit"],
    ["users?limit=101", "limit"],
    ["users?limit=", "limit"],
    ["users?limit=5&limit=6", "limit"],
    ["users?q=", "q"],
    ["tasks?sort=title", "sort"],
    ["analytics?interval=hour", "interval"],
    ["analytics?from=2030-01-01T00:00:00Z&to=2029-01-01T00:00:00Z", "from"],
    ["analytics?from=1971-01-01T00:00:00Z", "interval"],
    ["analytics?from=1969-12-31T23:00:00Z", "from"],
    ["analytics?to=1970-01-02T00:00:00Z", "from"],
    ["usage?window=1y", "window"],
    ["usage/breakdown?by=user", "by"],
    ["activity?status=4xx&status=200&status=4xx", "status"],
    [`activity?${Array.from({ length: 21 }, (_, code) => `status=${400 + code}`).join("&")}`, "status"],
    ["tasks?status=todo&status=later", "status"],
    ["tasks?status=todo&status=todo", "status"],
    ["keys?status=active&status=live", "status"],
    ["events?type=task.created&type=task.made", "type"],
    ["webhooks/none/deliveries?status=held&status=held", "status"],
    ["webhooks/none/deliveries?event_type=task.created&event_type=x", "event_type"],
    ["activity?status=40", "status"],
    ["activity?method=a%20b", "method"],
    ["activity?from=yesterday", "from"],
    ["keys?Status=active", "Status"],
  ])("rejects the query of %s, and names the parameter", async (path, parameter) => {
    const { key } = await makeTenant();
    const response = await call("GET", `/api/v1/${path}`, { key });
    expect([response.status, response.body.code, response.body.errors[0].parameter]).toEqual([400, "invalid_parameter", parameter]);
  });

  it("checks the route, the size, the media type, the syntax, the query, the body and the resource in this order", async () => {
    const { key } = await makeTenant();
    const codeOf = async (path: string, request: Call) => (await call("PATCH", path, { key, ...request })).body.code;
    const large = `{"title":"${"x".repeat(70_000)}"}`;
    const text = { "Content-Type": "text/plain" };
    expect(await codeOf("/api/v1/nowhere?x=1", { body: large, ...text })).toBe("not_found");
    expect(await codeOf("/api/v1/tasks", { body: large, ...text })).toBe("method_not_allowed");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: large, ...text })).toBe("body_too_large");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: "{", ...text })).toBe("unsupported_media_type");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: large, "Content-Encoding": "gzip" })).toBe("body_too_large");
    const compressed = { body: "{", "If-Match": "x", "Content-Encoding": "gzip" };
    expect(await codeOf("/api/v1/tasks/none?x=1", compressed)).toBe("unsupported_media_type");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: "{" })).toBe("malformed_json");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: { no: 1 }, "If-Match": "x" })).toBe("invalid_header");
    expect(await codeOf("/api/v1/tasks/none?x=1", { body: { no: 1 } })).toBe("invalid_parameter");
    expect(await codeOf("/api/v1/tasks/none", { body: { no: 1 } })).toBe("invalid_body");
    expect(await codeOf("/api/v1/tasks/none", { body: {} })).toBe("not_found");
  });
});
