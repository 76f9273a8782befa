import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { csvOf } from "../../../src/dashboard/csv.ts";
import { folded } from "../../../src/lib/inputs/fold.ts";
import { timeInput, timeInQuery } from "../../../src/lib/inputs/values.ts";
import { makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken, verify } from "../support/team.ts";

// Inputs at which users of similar products met bugs, with values made up here.

it.each([
  ["Ame\u0301lie", "AMÉLIE"],
  ["\u0386ννα", "\u1f71ννα"],
  ["İzmir", "izmir"],
  ["Işık TV", "ışık"],
  ["Satış Teklifleri", "satış teklİflerİ"],
  ["TIME", "time"],
  ["Œuvre", "œUVRE"],
  ["Ǆ", "ǆ"],
  ["Zoe\u0308", "ZOË"],
  ["İstanbul", "istanbul"],
  ["ISTANBUL", "ıstanbul"],
  ["Straße", "STRASSE"],
  ["GROẞ", "groß"],
  ["ΟΔΟΣ", "οδός".normalize("NFD").replaceAll("\u0301", "")],
  ["Ａｄａ", "ada"],
  ["ﬁsh", "FISH"],
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
  ["2030-01-01T24:00:00Z", false],
  ["tomorrow", false],
  ["", false],
  ["+012030-01-01T00:00:00Z", false],
  ["9999-12-31T23:59:59-12:00", false],
  ["0000-01-01T00:00:00+12:00", false],
])("The time %s is accepted: %s", (text, isAccepted) => {
  expect([timeInput.safeParse(text).success, timeInQuery.safeParse(text).success]).toEqual([isAccepted, isAccepted]);
});

it("A CSV file keeps leading zeros, large numbers and line breaks as they are", async () => {
  const csv = await csvOf({ a: () => "030611", b: (text: string) => text }, ['two\nlines, and "quotes"']);
  expect(csv).toBe('\ufeffa,b\r\n030611,"two\nlines, and ""quotes"""\r\n');
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
