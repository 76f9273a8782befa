import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { sampleOf } from "../../../src/http/request-line.ts";
import { makeTenant } from "../support/client.ts";

const app = createApp({ isLocal: true });
afterEach(() => vi.restoreAllMocks());

/** Sends requests with `LOG_SAMPLE` set to `sample`. Returns the lines that were logged of them, and how many were put together. */
async function linesOf(sample: string | undefined, paths: readonly string[], parts: Partial<Env> = {}) {
  const { key, accountId } = await makeTenant();
  const logged = vi.spyOn(console, "log").mockImplementation(() => {});
  const written = vi.spyOn(JSON, "stringify");
  logged.mockClear();
  written.mockClear();
  const ctx = createExecutionContext();
  const bindings = { ...env, ...parts, LOG_SAMPLE: sample } as Env;
  for (const path of paths)
    await app.fetch(new Request(`http://localhost${path}`, { headers: { Authorization: `Bearer ${key}` } }), bindings, ctx);
  const made = written.mock.calls.filter(([value]) => value !== null && typeof value === "object" && "http.request.method" in value);
  return { lines: logged.mock.calls.map(([line]) => JSON.parse(String(line))), made: made.length, accountId };
}

const failing = {
  DB: new Proxy({} as D1Database, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost");
    },
  }),
};

it("A request that fails with 5xx has a line, however few others have one", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const { lines, accountId } = await linesOf("0", ["/api/v1/users", "/api/v1/me"], failing);
  expect(lines).toEqual([
    expect.objectContaining({
      "http.route": "/api/v1/users",
      "http.response.status_code": 503,
      "error.type": "unavailable",
      "dvo.account.id": accountId,
    }),
  ]);
  expect(lines[0]).not.toHaveProperty("dvo.log.sample");
});

it("One hundredth of the others have a line, which says so; of the rest nothing is put together", async () => {
  const random = vi.spyOn(Math, "random").mockReturnValue(0.0099);
  const within = await linesOf(undefined, ["/api/v1/me", "/api/v1/nothing", "/docs", "/health"]);
  expect(within.lines.map((line) => line["http.response.status_code"])).toEqual([200, 404, expect.any(Number), 200]);
  expect(within.lines.every((line) => line["dvo.log.sample"] === 0.01)).toBe(true);
  random.mockReturnValue(0.01);
  const beyond = await linesOf(undefined, ["/api/v1/me", "/api/v1/nothing", "/health"]);
  expect([beyond.lines, beyond.made]).toEqual([[], 0]);
});

it("All have a line where LOG_SAMPLE is 1, and none where it is 0", async () => {
  expect((await linesOf("1", ["/api/v1/me", "/api/v1/nothing"])).lines).toHaveLength(2);
  expect((await linesOf("0", ["/api/v1/me", "/api/v1/nothing"])).lines).toHaveLength(0);
});

it.each(["", "1 %", "2", "-1", "1e-2", "a hundredth"])(
  "LOG_SAMPLE as %j is reported once and counts as 0.01: requests go on",
  async (wrong) => {
    const reported = vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(console, "log").mockImplementation(() => {});
    const { key } = await makeTenant();
    const ask = () =>
      app.fetch(
        new Request("http://localhost/api/v1/me", { headers: { Authorization: `Bearer ${key}` } }),
        { ...env, LOG_SAMPLE: wrong } as unknown as Env,
        createExecutionContext(),
      );
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect(reported.mock.calls).toEqual([[expect.stringContaining("LOG_SAMPLE must be a number from 0 to 1")]]);
    expect(sampleOf(wrong)).toBe(0.01);
  },
);
