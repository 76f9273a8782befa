import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { csvOf, readRows } from "../../../src/dashboard/csv.ts";
import { email, visibleText } from "../../../src/inputs/values.ts";
import { browse } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";

/** Control, format and bidirectional characters, and one that is written with two halves. */
const hidden = [
  "\u0001",
  "\n",
  "\t",
  "\u007f",
  "\u0085",
  "\u00ad",
  "\u061c",
  "\u200b",
  "\u200e",
  "\u202e",
  "\u2060",
  "\u2066",
  "\ufeff",
  "\u{e0041}",
  "\u034f",
  "\u115f",
  "\u180b",
  "\u2028",
  "\u2029",
  "\u2800",
  "\u3164",
  "\ufe00",
  "\uffa0",
  "\u{e0100}",
];

describe("A name", () => {
  it.each(hidden)("with the hidden character %j is refused, wherever one is given", async (character) => {
    const { accountId, key } = await makeTenant();
    const name = `Prod${character}uction`;
    const refused = async (path: string, body: object, member: string) => {
      const answer = await call("POST", `/api/v1${path}`, { key, body });
      expect([answer.status, answer.body.errors], path).toEqual([
        422,
        [{ pointer: `/${member}`, code: "invalid_text", detail: "Must not contain control or invisible characters." }],
      ]);
    };
    await refused("/keys", { name }, "name");
    await refused("/users", { name, email: "ada@example.com" }, "name");
    await refused("/webhooks", { url: "https://hooks.acme.dev/x", event_types: ["*"], description: name }, "description");
    const { post } = await makePerson(accountId);
    const invited = await post("/settings/invitations", { email: `a${character}b@example.com`, role: "viewer" });
    expect([
      invited.status,
      await env.DB.prepare("SELECT count(*) FROM invitations WHERE account_id = ? AND kind = 'invite'").bind(accountId).first("count(*)"),
    ]).toEqual([422, 0]);
  });

  it("with a hidden character is refused for an account and a member too", async () => {
    expect((await operate("POST", "/accounts", { name: "Ac\u202eme", email: "a@example.com" })).status).toBe(422);
    expect(visibleText(1, 100).safeParse("Ada\u200bLovelace").success).toBe(false);
    // Joiners and selectors join something, and are no name by themselves.
    for (const name of ["\u200c", "\u200d \ufe0f", "\ufe0e"]) expect(visibleText(1, 100).safeParse(name).success).toBe(false);
    for (const character of ["\u200c", "\u200d", "\ufe0f"]) expect(email.safeParse(`a${character}da@example.com`).success).toBe(false);
  });

  it.each(["👩‍👩‍👧", "❤️", "می‌خواهم", "नमस्‍ते", "Éclair & sons", "日本語", "a b", "שלום"])("like %s is taken", async (name) => {
    const { key } = await makeTenant();
    expect((await call("POST", "/api/v1/keys", { key, body: { name } })).body.name).toBe(name);
  });

  it("is documented by a pattern that takes what the service takes", async () => {
    const { components } = (await (await env.ASSETS.fetch("https://overview.acme.dev/api/v1/openapi.json")).json()) as Document;
    const patternOf = (schema: string, member: string) => new RegExp(components.schemas[schema]?.properties[member]?.pattern ?? "", "u");
    const [name, address] = [patternOf("NewKey", "name"), patternOf("NewUser", "email")];
    const unlike: number[] = [];
    for (let code = 0; code <= 0xffff; code++) {
      const character = String.fromCharCode(code);
      if (!character.isWellFormed()) continue;
      if (name.test(`a${character}b`) !== visibleText(1, 100).safeParse(`a${character}b`).success) unlike.push(code);
      const given = `a${character}b@example.com`;
      if (address.test(given) !== email.safeParse(given).success) unlike.push(code);
    }
    expect(unlike).toEqual([]);
  });
});

interface Document {
  components: { schemas: Record<string, { properties: Record<string, { pattern?: string }> }> };
}

describe("A CSV", () => {
  const quotedIn = (value: string) =>
    csvOf(["a"], [[value]])
      .replace(/^a\r\n"?/, "")
      .startsWith("'");

  it.each([
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\tx",
    "\rx",
    "\n=1",
    "\nx",
    " =1",
    "\u200b=1",
    "\ufeff\u00a0=1",
    "\u0000=1",
    "＝1",
    "＋1",
    "－1",
    "＠x",
    " \u200b＝1",
    "\ufe0f=1",
    "\u0301=1",
    "\ufe661",
    "\u22121",
  ])("puts a quote before %j, which a spreadsheet may run", (value) => {
    expect(quotedIn(value)).toBe(true);
  });

  it.each(["GET", "1=1", "a-b", " a", "/api/v1/tasks?x==", "2026-01-01", "👩‍👩‍👧"])("leaves %j as it is", (value) => {
    expect(quotedIn(value)).toBe(false);
  });

  it("has the first 10,000 rows, and is refused where little is found in many pages", async () => {
    const page =
      (rows: number, last: number) =>
      async ({ after = "0", limit }: { after: string | undefined; limit: number }) => ({
        rows: Array.from({ length: Math.min(rows, limit) }, () => "row"),
        next: Number(after) === last ? null : String(Number(after) + 1),
      });
    expect(await readRows(page(1000, 1e9))).toHaveLength(10_000);
    expect(await readRows(page(1, 99))).toHaveLength(100);
    await expect(readRows(page(1, 100))).rejects.toThrow("Choose a shorter time");
  });

  it("of activity puts it before what a client sent", async () => {
    const { accountId, keyId } = await makeTenant();
    await write([entryOf({ accountId, keyId }, Date.now() - 1000, { userAgent: "\u200b=HYPERLINK(1)" })]);
    expect((await browse(accountId).get("/activity.csv")).text).toContain(",'\u200b=HYPERLINK(1),");
  });
});
