import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { hourMs, minuteMs } from "../../../src/time/clock.ts";
import { answerOf, call, makeTenant, origin } from "../support/client.ts";
import { operatorToken } from "../support/operate.ts";
import { age, ask, makePerson } from "../support/people.ts";

let made = 0;
/** An address that nobody else has. */
const newAddress = () => `198.51.${Math.floor(++made / 250)}.${(made % 250) + 1}`;
const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };

/** Calls the operator's API with a token, from an address. */
const withToken = async (token: string, ip: string, path = "/operator/api/accounts") => {
  const headers = { Authorization: `Bearer ${token}`, "CF-Connecting-IP": ip };
  return answerOf(await exports.default.fetch(new Request(origin + path, { headers })));
};
const enter = async (code: string, ip: string) =>
  ask("POST", "/login/recovery", { ...form, "CF-Connecting-IP": ip }, new URLSearchParams({ code }).toString());

const failuresOf = async (credential: string): Promise<number> => {
  const { text } = await withToken(operatorToken, newAddress(), "/metrics");
  expect(text).toContain("# TYPE dvo_sign_in_failures counter\n");
  return Number(new RegExp(`^dvo_sign_in_failures_total\\{credential="${credential}"\\} (\\d+)$`, "m").exec(text)?.[1]);
};
const operatorEntries = async (action: string): Promise<{ details: object; operator: string }[]> =>
  (await withToken(operatorToken, newAddress(), "/operator/api/audit")).body.data.filter(
    (each: { action: string }) => each.action === action,
  );

/** Waits until a clock minute has some seconds left, so that no count begins again within a test. */
async function earlyInMinute(): Promise<void> {
  const left = minuteMs - (Date.now() % minuteMs);
  if (left < 20_000) await new Promise((resolve) => setTimeout(resolve, left));
}

describe("A wrong operator token", { timeout: 60_000 }, () => {
  it("is counted and recorded, at most one entry a minute, without the token", async () => {
    await earlyInMinute();
    const ip = newAddress();
    const before = await failuresOf("operator_token");
    const entriesBefore = (await operatorEntries("operator_token.refused")).length;
    for (const address of [ip, ip, newAddress()]) expect((await withToken("dvop_wrong-token", address)).status).toBe(401);
    expect((await failuresOf("operator_token")) - before).toBe(3);
    const entries = await operatorEntries("operator_token.refused");
    expect(entries.length - entriesBefore).toBeLessThanOrEqual(1);
    expect(entries[0]).toMatchObject({ operator: "unknown", details: { ip: expect.any(String) } });
    expect(JSON.stringify(entries)).not.toContain("wrong-token");
  });

  it("is refused with 429 after ten in a minute, and the right one is taken from the same address", async () => {
    await earlyInMinute();
    const ip = newAddress();
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push((await withToken(`wrong-${n}`, ip)).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    const refused = await withToken("wrong", ip);
    expect(refused.body.code).toBe("too_many_attempts");
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(Number(refused.headers.get("Retry-After"))).toBeLessThanOrEqual(60);
    expect((await withToken(operatorToken, ip)).status).toBe(200);
    expect((await withToken("wrong", newAddress())).status).toBe(401);
    const page = async (token: string) =>
      exports.default.fetch(
        new Request(`${origin}/operator/session`, {
          method: "POST",
          headers: { ...form, "CF-Connecting-IP": ip },
          body: `token=${token}`,
          redirect: "manual",
        }),
      );
    expect([(await page("wrong")).status, (await page(operatorToken)).status]).toEqual([429, 303]);
  });

  it("counts against all of an IPv6 network of 64 bits, and against no other", async () => {
    await earlyInMinute();
    const network = `2001:db8:0:${(++made).toString(16)}`;
    for (let n = 1; n <= 10; n++) await withToken("wrong", `${network}::${n}`);
    expect((await withToken("wrong", `${network}:1:2:3:4`)).status).toBe(429);
    expect((await withToken("wrong", `2001:db8:1:${made.toString(16)}::1`)).status).toBe(401);
  });

  it("is taken up again in the next minute", async () => {
    await earlyInMinute();
    const ip = newAddress();
    for (let n = 0; n < 11; n++) await withToken("wrong", ip);
    const now = Date.now();
    const clock = vi.spyOn(Date, "now").mockReturnValue(now + minuteMs);
    expect((await withToken("wrong", ip)).status).toBe(401);
    clock.mockRestore();
  });

  it("is not counted where none was sent", async () => {
    const before = await failuresOf("operator_token");
    for (let n = 0; n < 12; n++) expect((await answerOf(await exports.default.fetch(new Request(`${origin}/metrics`)))).status).toBe(401);
    expect(await failuresOf("operator_token")).toBe(before);
  });
});

describe("A wrong recovery code", { timeout: 60_000 }, () => {
  it("is counted, and recorded for the operator where nobody knows whose it would be", async () => {
    const before = await failuresOf("recovery_code");
    expect((await enter("aaaaa-bbbbb-ccccc-ddddd-eeeee", newAddress())).status).toBe(403);
    expect((await failuresOf("recovery_code")) - before).toBe(1);
    const entries = await operatorEntries("recovery_code.refused");
    expect(entries[0]).toMatchObject({ operator: "unknown" });
    expect(JSON.stringify(entries)).not.toContain("aaaaa");
  });

  it("that was spent before is in the audit log of its account, with the address, once a minute", async () => {
    await earlyInMinute();
    const { accountId, key } = await makeTenant();
    const { member, codes } = await makePerson(accountId);
    expect((await enter(codes[0] ?? "", newAddress())).status).toBe(303);
    const ip = newAddress();
    for (let n = 0; n < 3; n++) expect((await enter(codes[0] ?? "", ip)).status).toBe(403);
    const { data } = (await call("GET", "/api/v1/audit?action=recovery_code.refused", { key })).body;
    expect(data).toMatchObject([{ actor: { type: "system" }, target: { type: "member", id: member.id }, ip }]);
  });

  it("of a member who confirms that it is them is in the account's audit log, and bounded apart from strangers and other members at the same address", async () => {
    await earlyInMinute();
    const { accountId, key } = await makeTenant();
    const { member, codes, post } = await makePerson(accountId);
    await age(member, "verified_at", hourMs);
    const ip = newAddress();
    const confirm = async (code: string, address: string) =>
      (await post("/keys", { name: "x", confirm_code: code }, { "CF-Connecting-IP": address })).text;
    for (let n = 0; n < 10; n++) expect(await confirm("wrong", ip)).toContain("not one of your recovery codes");
    expect(await confirm("wrong", ip)).toContain("Too many wrong codes");
    expect((await enter("wrong", ip)).status).toBe(403);
    const other = await makePerson(accountId);
    await age(other.member, "verified_at", hourMs);
    const made = await other.post("/keys", { name: "y", confirm_code: other.codes[0] ?? "" }, { "CF-Connecting-IP": ip });
    expect(made.text).toContain('aria-label="Secret key"');
    // From another address the same person goes on.
    expect(await confirm(codes[0] ?? "", newAddress())).toContain('aria-label="Secret key"');
    const { data } = (await call("GET", "/api/v1/audit?action=recovery_code.refused", { key })).body;
    expect(data).toMatchObject([{ actor: { type: "member", id: member.id }, target: { id: member.id }, ip }]);
  });

  it("leaves no entry in an account that has used up its reserve", async () => {
    await earlyInMinute();
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    expect((await enter(codes[0] ?? "", newAddress())).status).toBe(303);
    await env.DB.prepare("UPDATE account_storage SET bytes = 1e12 WHERE account_id = ?").bind(accountId).run();
    expect((await enter(codes[0] ?? "", newAddress())).status).toBe(403);
    const count = "SELECT count(*) AS count FROM audit WHERE account_id = ? AND action = 'recovery_code.refused'";
    expect(await env.DB.prepare(count).bind(accountId).first("count")).toBe(0);
  });

  it("is refused with 429 after ten in a minute, and the next code is not looked at; another address goes on", async () => {
    await earlyInMinute();
    const { codes } = await makePerson((await makeTenant()).accountId);
    const ip = newAddress();
    const statuses: number[] = [];
    for (let n = 0; n < 11; n++) statuses.push((await enter(`wrong-${n}`, ip)).status);
    expect(statuses).toEqual([...Array(10).fill(403), 429]);
    const late = await enter(codes[0] ?? "", ip);
    expect([late.status, late.text.includes("Too many wrong codes")]).toEqual([429, true]);
    expect((await enter(codes[0] ?? "", newAddress())).status).toBe(303);
  });

  it("of one who then has the right code is forgotten", async () => {
    await earlyInMinute();
    const { codes } = await makePerson((await makeTenant()).accountId);
    const ip = newAddress();
    for (const code of [codes[0] ?? "", codes[1] ?? ""]) {
      for (let n = 0; n < 9; n++) expect((await enter("wrong", ip)).status).toBe(403);
      expect((await enter(code, ip)).status).toBe(303);
    }
  });

  it("makes no row for each address: many addresses share a fixed number", async () => {
    const { slots } = await import("../../../src/operations/sign-in-failures.ts");
    const insert = env.DB.prepare(
      "INSERT INTO sign_in_attempts (slot, source, minute, attempts) SELECT value, 'x', 0, 1 FROM json_each(?) WHERE true ON CONFLICT (slot) DO NOTHING",
    );
    await insert.bind(JSON.stringify(Array.from({ length: slots }, (_, slot) => slot))).run();
    for (let n = 0; n < 20; n++) await enter("wrong", newAddress());
    expect(await env.DB.prepare("SELECT count(*) AS count FROM sign_in_attempts").first("count")).toBe(slots);
  });
});
