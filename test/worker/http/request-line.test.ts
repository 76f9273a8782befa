import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { sampleOf } from "../../../src/http/request-line.ts";
import { callWith, makeTenant } from "../support/client.ts";

const app = createApp({ isLocal: true });
afterEach(() => vi.restoreAllMocks());

/**
 * Sends GET requests to a Worker whose `LOG_SAMPLE` is `sample`. For each request, the Worker can write one line to its log. Returns the
 * lines that the Worker printed, and the number of lines that the Worker serialized.
 */
async function readLines(sample: string | undefined, paths: readonly string[], changedBindings: Partial<Env> = {}) {
  const { key, accountId } = await makeTenant();
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const stringify = vi.spyOn(JSON, "stringify");
  log.mockClear();
  stringify.mockClear();
  const ctx = createExecutionContext();
  const bindings = { ...env, ...changedBindings, LOG_SAMPLE: sample } as Env;
  for (const path of paths)
    await app.fetch(new Request(`http://localhost${path}`, { headers: { Authorization: `Bearer ${key}` } }), bindings, ctx);
  const isRequestLine = (value: unknown) => value !== null && typeof value === "object" && "http.request.method" in value;
  const serialized = stringify.mock.calls.filter(([value]) => isRequestLine(value)).length;
  return { lines: log.mock.calls.map(([line]) => JSON.parse(String(line))), serialized, accountId };
}

const failingDb = {
  DB: new Proxy({} as D1Database, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost");
    },
  }),
};

it("The Worker prints the line of each request that gets 5xx, even if LOG_SAMPLE is 0", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const { lines, accountId } = await readLines("0", ["/api/v1/users", "/api/v1/me"], failingDb);
  expect(lines).toEqual([
    expect.objectContaining({
      "http.route": "/api/v1/users",
      "http.response.status_code": 503,
      "error.type": "unavailable",
      "dvo.error.code": "unavailable",
      "dvo.account.id": accountId,
    }),
  ]);
  expect(lines[0]).not.toHaveProperty(["dvo.log.sample"]);
});

it("The Worker prints the lines of one hundredth of the other requests by default, and serializes no further lines", async () => {
  const random = vi.spyOn(Math, "random").mockReturnValue(0.0099);
  const sampled = await readLines(undefined, ["/api/v1/me", "/api/v1/nothing", "/docs"]);
  expect(sampled.lines.map((line) => line["http.response.status_code"])).toEqual([200, 404, 200]);
  expect(sampled.lines.every((line) => line["dvo.log.sample"] === 0.01)).toBe(true);
  expect(sampled.lines.map((line) => [line["error.type"], line["dvo.error.code"]])[1]).toEqual([undefined, "not_found"]);
  random.mockReturnValue(0.01);
  const notSampled = await readLines(undefined, ["/api/v1/me", "/api/v1/nothing", "/docs"]);
  expect([notSampled.lines, notSampled.serialized]).toEqual([[], 0]);
});

it.each(["", "1 %", "2", "-1", "1e-2", "a hundredth"])(
  "The Worker reports the invalid LOG_SAMPLE %j once, and uses 0.01 instead",
  async (invalid) => {
    const reported = vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(console, "log").mockImplementation(() => {});
    const { key } = await makeTenant();
    const getMe = () => callWith({ LOG_SAMPLE: invalid } as unknown as Partial<Env>, "GET", "/api/v1/me", key);
    for (let n = 0; n < 3; n++) expect((await getMe()).status).toBe(200);
    expect(reported.mock.calls).toEqual([[expect.stringContaining("LOG_SAMPLE must be a number from 0 to 1")]]);
    expect(sampleOf(invalid)).toBe(0.01);
  },
);
