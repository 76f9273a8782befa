import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { csvOf, readRows } from "../../../src/dashboard/csv.ts";
import { email, visibleText } from "../../../src/lib/inputs/values.ts";
import { call, makeTenant } from "../support/client.ts";
import { countInvitations } from "../support/member-rows.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";

const hiddenCharacters = [
  // Control characters.
  ...["\u0001", "\n", "\t", "\u007f", "\u0085", "\u2028", "\u2029"],
  // Format characters and bidirectional characters. The last one consists of two UTF-16 code units.
  ...["\u00ad", "\u061c", "\u180b", "\u200b", "\u200e", "\u202e", "\u2060", "\u2066", "\ufe00", "\ufeff", "\u{e0041}", "\u{e0100}"],
  // Letters and signs that look empty.
  ...["\u034f", "\u115f", "\u2800", "\u3164", "\uffa0"],
];

describe("A name", () => {
  it.each(hiddenCharacters)("or an email address cannot contain the hidden character %j", (character) => {
    expect(visibleText(1, 100).safeParse(`Prod${character}uction`).success).toBe(false);
    expect(email.safeParse(`a${character}b@example.com`).success).toBe(false);
  });

  it("with a hidden character is rejected in keys, users, webhooks and invitations", async () => {
    const { accountId, key } = await makeTenant();
    const character = "\u200b";
    const name = `Prod${character}uction`;
    const expectRejection = async (path: string, body: object, field: string) => {
      const answer = await call("POST", `/api/v1${path}`, { key, body });
      expect([answer.status, answer.body.errors], path).toEqual([
        422,
        [{ pointer: `/${field}`, code: "invalid_text", detail: `Must not contain the character U+200B, at position 5.` }],
      ]);
    };
    await expectRejection("/keys", { name }, "name");
    await expectRejection("/users", { name, email: "ada@example.com" }, "name");
    await expectRejection("/webhooks", { url: "https://hooks.acme.dev/x", event_types: ["*"], description: name }, "description");
    const { post } = await makePerson(accountId);
    const invited = await post("/settings/invitations", { email: `a${character}b@example.com`, role: "viewer" });
    expect([invited.status, await countInvitations(accountId)]).toEqual([422, 0]);
  });

  it("with a hidden character is rejected in accounts and members", async () => {
    expect((await operate("POST", "/accounts", { name: "Ac\u202eme", email: "a@example.com" })).status).toBe(422);
    expect(visibleText(1, 100).safeParse("Ada\u200bLovelace").success).toBe(false);
    // Joiners and variation selectors are valid only next to other characters.
    for (const name of ["\u200c", "\u200d \ufe0f", "\ufe0e"]) expect(visibleText(1, 100).safeParse(name).success).toBe(false);
    for (const character of ["\u200c", "\u200d", "\ufe0f"]) expect(email.safeParse(`a${character}da@example.com`).success).toBe(false);
  });

  it("says which character is rejected, and where, also behind an emoji and in a lone half of a character", () => {
    const messageOf = (name: string) => visibleText(1, 100).safeParse(name).error?.issues[0]?.message;
    expect(messageOf("🏳️‍🌈 Ada\u200f")).toBe("Must not contain the character U+200F, at position 9.");
    expect(messageOf("Ada\ud800 L")).toBe("Must not contain the character U+D800, at position 4.");
    // Tags that are no flag could hide a text.
    expect(messageOf("Ada\u{e0067}\u{e0062}")).toBe("Must not contain the character U+E0067, at position 4.");
    expect(messageOf("\u{1f3f4}\u{e0067}\u{e0062}")).toBe("Must not contain the character U+E0067, at position 2.");
  });

  it.each([
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} London",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "🏴󠁧󠁢󠁷󠁬󠁳󠁿 Cardiff",
    "👩‍👩‍👧",
    "❤️",
    "می‌خواهم",
    "नमस्‍ते",
    "Éclair & sons",
    "日本語",
    "a b",
    "שלום",
  ])("like %s is accepted", async (name) => {
    const { key } = await makeTenant();
    expect((await call("POST", "/api/v1/keys", { key, body: { name } })).body.name).toBe(name);
  });

  it("is documented with a pattern that accepts the same characters as the service", async () => {
    const { components } = (await (await env.ASSETS.fetch("https://overview.acme.dev/api/v1/openapi.json")).json()) as Document;
    const patternOf = (schema: string, field: string) => new RegExp(components.schemas[schema]?.properties[field]?.pattern ?? "", "u");
    const [name, address] = [patternOf("NewKey", "name"), patternOf("NewUser", "email")];
    const different: number[] = [];
    for (let code = 0; code <= 0xffff; code++) {
      const character = String.fromCharCode(code);
      if (!character.isWellFormed()) continue;
      if (name.test(`a${character}b`) !== visibleText(1, 100).safeParse(`a${character}b`).success) different.push(code);
      const candidate = `a${character}b@example.com`;
      if (address.test(candidate) !== email.safeParse(candidate).success) different.push(code);
    }
    expect(different).toEqual([]);
  });
});

interface Document {
  components: { schemas: Record<string, { properties: Record<string, { pattern?: string }> }> };
}

describe("A CSV export", () => {
  const isQuoted = async (value: string) => {
    const csv = await csvOf({ a: (each: string) => each }, [value]);
    return csv.replace(/^\ufeffa\r\n"?/, "").startsWith("'");
  };

  it.each([
    ...["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\n=1", "\nx"],
    // Invisible characters and marks before the formula.
    ...[" =1", "\u200b=1", "\ufeff\u00a0=1", "\u0000=1", "\ufe0f=1", "\u0301=1", " \u200b\uff1d1"],
    // Other forms of the signs.
    ...["\uff1d1", "\uff0b1", "\uff0d1", "\uff20x", "\ufe661", "\u22121"],
  ])("puts an apostrophe before %j, because a spreadsheet could run it as a formula", async (value) => {
    expect(await isQuoted(value)).toBe(true);
  });

  it.each(["GET", "1=1", "a-b", " a", "/api/v1/tasks?x==", "2026-01-01", "👩‍👩‍👧"])("leaves %j unchanged", async (value) => {
    expect(await isQuoted(value)).toBe(false);
  });

  it("contains the first 10,000 rows, and fails after 100 pages with few rows", async () => {
    const pagesOf =
      (rowsPerPage: number, lastPage: number) =>
      async ({ after = "0", limit }: { after: string | undefined; limit: number }) => ({
        rows: Array.from({ length: Math.min(rowsPerPage, limit) }, () => "row"),
        next: Number(after) === lastPage ? null : String(Number(after) + 1),
      });
    const [first, all] = [await readRows(pagesOf(1000, 1e9)), await readRows(pagesOf(1, 99))];
    expect([first.rows.length, first.areAll, all.rows.length, all.areAll]).toEqual([10_000, false, 100, true]);
    await expect(readRows(pagesOf(1, 100))).rejects.toThrow("Choose a shorter time");
  });
});
