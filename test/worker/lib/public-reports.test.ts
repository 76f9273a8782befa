import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { csvOf } from "../../../src/dashboard/csv.ts";
import { folded } from "../../../src/lib/inputs/fold.ts";
import { timeInput, timeInQuery } from "../../../src/lib/inputs/values.ts";
import { call, makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken, verify } from "../support/team.ts";

// Inputs at which users of similar products met bugs, with values made up here.

describe("A credential", () => {
  it.each<[number, (key: string) => string]>([
    [200, (key) => `BEARER    ${key}`],
    [200, (key) => `bearer ${key}  `],
    [200, (key) => `APIKEY ${key}`],
    [200, (key) => `  ${key}`],
    [401, (key) => `Bearer${key}`],
    [401, (key) => `Bearer ${key.toUpperCase()}`],
    [401, (key) => `Bearer ${key}\u200b`],
    [401, (key) => `Bearer ${createHash("sha256").update(key).digest("hex")}`],
    [401, (key) => `Basic ${key}`],
    [400, (key) => `Bearer ${key}, ApiKey another`],
  ])("gets %s as a client of another product sent it: %s", async (status, spell) => {
    const { key } = await makeTenant();
    expect((await verify(await makeToken(["verify"]), { key: spell(key) })).body.status).toBe(status);
  });
});

it.each([
  ["Ame\u0301lie", "AMÉLIE"],
  ["\u0386ννα", "\u1f71ννα"],
  ["İzmir", "izmir"],
  ["Işık TV", "ışık"],
  ["Satış Teklifleri", "satış teklİflerİ"],
  ["TIME", "time"],
  ["Œuvre", "œUVRE"],
  ["Ǆ", "ǆ"],
])("%s is found by %s", (name, q) => expect(folded(name)).toContain(folded(q)));

it.each<[string, boolean]>([
  ["2026-09-02T07:50:45.392+02:00", true],
  ["2026-09-02T07:50:45-07:00", true],
  ["2026-09-02t07:50:45z", true],
  ["2026-09-02T07:50:45.123456789Z", true],
  ["2026-09-02T07:50:45+0200", false],
  ["2026-09-02T07:50:45-7:00", false],
  ["2026-09-02T07:50:45", false],
  ["2026-09-02", false],
  ["20260902T075045Z", false],
  ["2026-02-30T07:50:45Z", false],
])("The time %s is accepted: %s", (text, isAccepted) => {
  expect([timeInput.safeParse(text).success, timeInQuery.safeParse(text).success]).toEqual([isAccepted, isAccepted]);
});

it("A CSV file keeps leading zeros, large numbers and line breaks as they are", async () => {
  const csv = await csvOf(["a", "b"], [["030611", 'two\nlines, and "quotes"']], (row) => row);
  expect(csv).toBe('\ufeffa,b\r\n030611,"two\nlines, and ""quotes"""\r\n');
});

it("A key that is used up never shows less than nothing, and says when the limit that refused has room", async () => {
  const { accountId } = await makeTenant();
  const limits = [
    { per: "minute", limit: 2 },
    { per: "month", limit: 1000 },
  ];
  const { body } = await operate("POST", `/accounts/${accountId}/keys`, { name: "K", limits });
  const seen = [];
  for (let request = 0; request < 4; request++) {
    const { status, headers } = await call("GET", "/api/v1/me", { key: body.secret_key });
    const [, left] = /"minute";r=(-?\d+)/.exec(headers.get("RateLimit") ?? "") ?? [];
    seen.push([status, Number(left)]);
    if (status === 429) {
      expect(Number(headers.get("Retry-After"))).toBeGreaterThanOrEqual(1);
      expect(Number(headers.get("Retry-After"))).toBeLessThanOrEqual(60);
      expect(Number(headers.get("X-RateLimit-Reset"))).toBeLessThanOrEqual(Date.now() / 1000 + 61);
    }
  }
  expect(seen).toEqual([
    [200, 1],
    [200, 0],
    [429, 0],
    [429, 0],
  ]);
});

it("An imported hash is no key, and a hash that is no text of a hash is refused", async () => {
  const { accountId } = await makeTenant();
  const hash = createHash("sha256").update("a secret of another product").digest("hex");
  const form = await operate("POST", "/key-forms", { prefix: "", min_length: 64, max_length: 64, alphabet: "hex" });
  const rows = [hash, `${hash.slice(0, 63)}é`].map((each) => ({ name: "Old", algorithm: "sha256", hash: each }));
  const { body } = await operate("POST", `/accounts/${accountId}/keys/import`, { keys: rows });
  expect(body.data.map(({ status }: { status: number }) => status)).toEqual([201, 422]);
  expect((await verify(await makeToken(["verify"]), { key: hash })).body).toMatchObject({ allowed: false, status: 401 });
  await operate("DELETE", `/key-forms/${form.body.id}`);
});
