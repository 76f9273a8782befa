import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";

const post = (key: string, body: unknown, headers: Record<string, string> = {}) => call("POST", "/api/v1/tasks", { key, body, ...headers });
const fieldErrorsOf = ({ body }: { body: { errors?: { pointer?: string; code: string }[] } }) =>
  body.errors?.map(({ pointer, code }) => [pointer, code]);

describe("A body", () => {
  it.each([
    ["nothing", ""],
    ["a word", "hello"],
    ["half an object", '{"title": "x"'],
    ["two values", "{}{}"],
    ["a comment", '{"title": "x" /* */}'],
    ["NaN", '{"title": NaN}'],
    ["a raw control character", '{"title": "a\u0001b"}'],
    ["bytes that are no UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  ])("that is %s is malformed", async (_, body) => {
    const { key } = await makeTenant();
    const answer = await post(key, body);
    expect([answer.status, answer.body.code]).toEqual([400, "malformed_json"]);
  });

  it("nested thirty thousand deep is refused like any other", async () => {
    const { key } = await makeTenant();
    const deep = 30_000;
    for (const body of [
      `{"title":${"[".repeat(deep)}${"]".repeat(deep)}}`,
      `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`,
      "[".repeat(deep) + "]".repeat(deep),
    ]) {
      expect((await post(key, body)).status).toBe(422);
    }
    expect((await post(key, "[".repeat(60_000))).status).toBe(400);
  });

  it.each([[null], [[]], ["text"], [7], [true]])("that is %j instead of an object is invalid", async (body) => {
    const { key } = await makeTenant();
    const answer = await post(key, JSON.stringify(body));
    expect([answer.status, answer.body.code]).toEqual([422, "invalid_body"]);
  });

  it("has every bad member named, by JSON pointer", async () => {
    const { key } = await makeTenant();
    const answer = await post(key, {
      description: 7,
      status: "later",
      priority: null,
      labels: ["ok", 3, ""],
      due_at: "2030-01-01T00:00:00",
      "un/kno~wn": 1,
    });
    expect(answer.status).toBe(422);
    expect(new Map(fieldErrorsOf(answer) as [string, string][])).toEqual(
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
    ["constructor", '{"title":"x","constructor":1}'],
    ["id", '{"title":"x","id":"tsk_1"}'],
    ["completed_at", '{"title":"x","completed_at":null}'],
    ["account_id", '{"title":"x","account_id":"acc_1"}'],
  ])("with the unknown member %s is refused", async (name, body) => {
    const { key } = await makeTenant();
    expect(fieldErrorsOf(await post(key, body))).toEqual([[`/${name}`, "unknown_member"]]);
  });

  it("does not get its answer made large by what it has in it", async () => {
    const { key } = await makeTenant();
    const many = await post(key, Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`m${index}`, 1])));
    expect(many.body.errors.length).toBe(100);
    const long = await post(key, { title: "x", ["é".repeat(20_000)]: 1 });
    expect(long.body.errors[0].pointer.length).toBeLessThan(200);
  });

  it.each([
    "2030-01-01",
    "2030-01-01T00:00:00",
    "2030-02-30T00:00:00Z",
    "2030-01-01T24:00:00Z",
    "tomorrow",
    "",
    1893456000,
    "+012030-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
    "0000-01-01T00:00:00+12:00",
  ])("with the time %j is refused", async (due_at) => {
    const { key } = await makeTenant();
    const answer = await post(key, { title: "x", due_at });
    expect([answer.status, answer.body.errors?.[0]?.pointer]).toEqual([422, "/due_at"]);
  });

  it("with NUL or a lone surrogate in a text is refused", async () => {
    const { key } = await makeTenant();
    for (const title of ["a\0b", "\ud800", "x\udc00y"]) {
      const answer = await post(key, `{"title":${JSON.stringify(title)}}`);
      expect([answer.status, fieldErrorsOf(answer)]).toEqual([422, [["/title", "invalid_text"]]]);
    }
    expect((await post(key, { title: "😀 emoji, עברית, \u202e" })).body.title).toBe("😀 emoji, עברית, \u202e");
  });

  it("counts characters, not code units", async () => {
    const { key } = await makeTenant();
    expect((await post(key, { title: "😀".repeat(200) })).status).toBe(201);
    expect(fieldErrorsOf(await post(key, { title: "😀".repeat(201) }))).toEqual([["/title", "too_big"]]);
    for (const title of ["", "   ", "\n"]) expect(fieldErrorsOf(await post(key, { title }))).toEqual([["/title", "too_small"]]);
  });

  it("has 64 KiB at most, said or streamed", async () => {
    const { key } = await makeTenant();
    const ofLength = (length: number) => `{"title":"${"x".repeat(length - 12)}"}`;
    const streamed = (text: string) =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < text.length; at += 10_000) controller.enqueue(new TextEncoder().encode(text.slice(at, at + 10_000)));
          controller.close();
        },
      });
    expect((await post(key, ofLength(65_536))).status).toBe(422);
    for (const body of [ofLength(65_537), streamed(ofLength(65_537)), streamed(ofLength(300_000))]) {
      const answer = await post(key, body);
      expect([answer.status, answer.body.code]).toEqual([413, "body_too_large"]);
    }
  });

  it.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/xml",
    "application/json5",
    "application/merge-patch+json",
    "json",
    "",
  ])("of the media type %j is refused", async (mediaType) => {
    const { key } = await makeTenant();
    const answer = await post(key, '{"title":"x"}', { "Content-Type": mediaType });
    expect([answer.status, answer.body.code]).toEqual([415, "unsupported_media_type"]);
  });

  it.each(["gzip", "GZIP", "br", "deflate", "zstd", "identity, gzip", "x-nothing"])(
    "with the Content-Encoding %s is refused, and told that none is taken",
    async (coding) => {
      const { key } = await makeTenant();
      const packed = new Response('{"title":"x"}').body?.pipeThrough(new CompressionStream("gzip"));
      const body = new Uint8Array(await new Response(packed).arrayBuffer());
      const answer = await post(key, body, { "Content-Encoding": coding });
      expect([answer.status, answer.body.code, answer.headers.get("Accept-Encoding")]).toEqual([415, "unsupported_media_type", "identity"]);
    },
  );

  it("with the Content-Encoding identity is taken, and without one what is packed is no JSON", async () => {
    const { key } = await makeTenant();
    for (const coding of ["identity", "Identity", "identity, identity", ""])
      expect((await post(key, { title: "x" }, { "Content-Encoding": coding })).status, coding).toBe(201);
    const packed = new Response('{"title":"x"}').body?.pipeThrough(new CompressionStream("gzip"));
    expect((await post(key, new Uint8Array(await new Response(packed).arrayBuffer()))).body.code).toBe("malformed_json");
  });

  it("of JSON with a parameter is taken", async () => {
    const { key } = await makeTenant();
    for (const mediaType of ["Application/JSON; charset=utf-8", "application/json ; charset=utf-8", "application/json;"]) {
      expect((await post(key, '{"title":"x"}', { "Content-Type": mediaType })).status).toBe(201);
    }
  });

  it("is refused with 503 where its key holds half of the isolate's 16 MiB already, while another key's is taken", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const held: ReadableStreamDefaultController<Uint8Array>[] = [];
    const text = `{"title":"x","description":"${"y".repeat(60_000)}"}`;
    const holding = () =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode(text.slice(0, -1)));
          held.push(controller);
        },
      });
    const waiting = Array.from({ length: 200 }, () => post(key, holding()));
    const refused = await Promise.race([...waiting, new Promise<null>((resolve) => setTimeout(resolve, 5000, null))]);
    expect([refused?.status, refused?.body.code]).toEqual([503, "unavailable"]);
    expect((await post(other.key, { title: "x" })).status).toBe(201);
    for (const controller of held) {
      try {
        controller.enqueue(new TextEncoder().encode("}"));
        controller.close();
      } catch {
        // Of one that was refused.
      }
    }
    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([422, 503]));
    // Each takes 64 KiB at most, and some of the 60 KB that have come so far.
    expect(statuses.filter((status) => status === 422).length).toBeGreaterThan(115);
    expect(statuses.filter((status) => status === 422).length).toBeLessThan(140);
    expect((await post(key, { title: "x" })).status).toBe(201);
  });

  it("leaves nothing behind when it is refused", async () => {
    const { key } = await makeTenant();
    await Promise.all([post(key, { title: "" }), post(key, "{"), post(key, { title: "x", assignee_id: "usr_1" })]);
    expect((await call("GET", "/api/v1/tasks", { key })).body.data).toEqual([]);
  });
});

describe("A query", () => {
  it.each([
    ["me?=1", ""],
    ["users?limit=0", "limit"],
    ["users?limit=101", "limit"],
    ["users?limit=", "limit"],
    ["users?limit=0x10", "limit"],
    ["users?limit=1e1", "limit"],
    ["users?limit=-1", "limit"],
    ["users?limit=5&limit=6", "limit"],
    ["users?role=owner", "role"],
    ["users?q=%00", "q"],
    ["users?q=", "q"],
    ["tasks?sort=title", "sort"],
    ["tasks?due_before=2030-01-01", "due_before"],
    ["analytics?interval=hour", "interval"],
    ["analytics?from=2030-01-01T00:00:00Z&to=2029-01-01T00:00:00Z", "from"],
    ["analytics?from=1971-01-01T00:00:00Z", "interval"],
    ["analytics?from=1969-12-31T23:00:00Z", "from"],
    ["analytics?to=1970-01-02T00:00:00Z", "from"],
    ["usage?window=1y", "window"],
    ["usage/breakdown", "by"],
    ["usage/breakdown?by=user", "by"],
    ["activity?status=6xx", "status"],
    ["activity?status=4xx&status=200&status=4xx", "status"],
    [`activity?${Array.from({ length: 21 }, (_, code) => `status=${400 + code}`).join("&")}`, "status"],
    ["tasks?status=todo&status=later", "status"],
    ["tasks?status=todo&status=todo", "status"],
    ["tasks?status=todo,done", "status"],
    ["tasks?status=", "status"],
    ["tasks?priority=low&priority=low", "priority"],
    ["users?role=admin&role=owner", "role"],
    ["users?status=active&status=active", "status"],
    ["keys?status=active&status=live", "status"],
    ["events?type=task.created&type=task.made", "type"],
    ["events?type=task.created&type=task.created", "type"],
    ["webhooks/none/deliveries?status=held&status=held", "status"],
    ["webhooks/none/deliveries?event_type=task.created&event_type=x", "event_type"],
    ["activity?status=40", "status"],
    ["activity?method=get", "method"],
    ["activity?from=yesterday", "from"],
    ["keys?status=live", "status"],
    ["keys?Status=active", "Status"],
  ])("%s is refused, by name", async (path, parameter) => {
    const { key } = await makeTenant();
    const answer = await call("GET", `/api/v1/${path}`, { key });
    expect([answer.status, answer.body.code, answer.body.errors[0].parameter]).toEqual([400, "invalid_parameter", parameter]);
  });
});

describe("The order of checks", () => {
  it("is route, size, media type, syntax, query, body, resource", async () => {
    const { key } = await makeTenant();
    const code = async (path: string, call_: Parameters<typeof call>[2]) => (await call("PATCH", path, { key, ...call_ })).body.code;
    const large = `{"title":"${"x".repeat(70_000)}"}`;
    const text = { "Content-Type": "text/plain" };
    expect(await code("/api/v1/nowhere?x=1", { body: large, ...text })).toBe("not_found");
    expect(await code("/api/v1/tasks", { body: large, ...text })).toBe("method_not_allowed");
    expect(await code("/api/v1/tasks/none?x=1", { body: large, ...text })).toBe("body_too_large");
    expect(await code("/api/v1/tasks/none?x=1", { body: "{", ...text })).toBe("unsupported_media_type");
    expect(await code("/api/v1/tasks/none?x=1", { body: large, "Content-Encoding": "gzip" })).toBe("body_too_large");
    expect(await code("/api/v1/tasks/none?x=1", { body: "{", "If-Match": "x", "Content-Encoding": "gzip" })).toBe("unsupported_media_type");
    expect(await code("/api/v1/tasks/none?x=1", { body: "{" })).toBe("malformed_json");
    expect(await code("/api/v1/tasks/none?x=1", { body: { no: 1 }, "If-Match": "x" })).toBe("invalid_header");
    expect(await code("/api/v1/tasks/none?x=1", { body: { no: 1 } })).toBe("invalid_parameter");
    expect(await code("/api/v1/tasks/none", { body: { no: 1 } })).toBe("invalid_body");
    expect(await code("/api/v1/tasks/none", { body: {} })).toBe("not_found");
  });
});
