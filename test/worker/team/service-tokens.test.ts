import { abortAllDurableObjects } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { newServiceToken, newTokenId } from "../../../src/credentials/service-token.ts";
import { hourMs, iso, minuteMs } from "../../../src/lib/time/clock.ts";
import { answerOf, makeTenant, origin, signing } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { postForm } from "../support/people.ts";
import { makeToken, verify } from "../support/team.ts";

const metrics = async (token: string) =>
  answerOf(await exports.default.fetch(new Request(`${origin}/metrics`, { headers: { Authorization: `Bearer ${token}` } })));

describe("A service token", () => {
  it("is shown once, and appears in the list without its secret", async () => {
    const { status, body } = await operate("POST", "/tokens", { name: "Prometheus", scopes: ["metrics:read"] });
    expect(status).toBe(201);
    expect(body.token).toMatch(/^svc_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/);
    expect(body.token.startsWith(body.id)).toBe(true);
    await metrics(body.token);
    const { body: list } = await operate("GET", "/tokens");
    const [listed] = list.data.filter(({ id }: { id: string }) => id === body.id);
    expect(listed).toMatchObject({ name: "Prometheus", scopes: ["metrics:read"], accounts: null, created_by: "tests", revoked_at: null });
    expect(listed.last_used_at).toEqual(expect.any(String));
    expect(JSON.stringify(list)).not.toContain(body.token);
  });

  it("may read /metrics with metrics:read alone", async () => {
    expect((await metrics(await makeToken(["metrics:read"]))).status).toBe(200);
    expect((await metrics(await makeToken(["verify"]))).status).toBe(403);
  });

  it("is denied within five seconds after it was revoked", async () => {
    const { body, headers } = await operate("POST", "/tokens", { name: "T", scopes: ["accounts:read"] });
    expect(headers.get("Location")).toBe(`/team/v1/tokens/${body.id}`);
    expect((await operate("GET", "/accounts", undefined, body.token)).status).toBe(200);
    expect((await operate("DELETE", `/tokens/${body.id}`)).status).toBe(204);
    expect((await operate("DELETE", `/tokens/${body.id}`)).status).toBe(204);
    vi.setSystemTime(Date.now() + 5001);
    try {
      const answer = await operate("GET", "/accounts", undefined, body.token);
      expect([answer.status, answer.body.code]).toEqual([401, "invalid_token"]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("takes its unused setup links with it when it is revoked, and those of the tokens that it created", async () => {
    const scopes = ["accounts:write", "operate"];
    const { body: maker } = await operate("POST", "/tokens", { name: "Maker", scopes: [...scopes, "tokens:write"] });
    const { body: made } = await operate("POST", "/tokens", { name: "Made", scopes }, maker.token);
    const linkIn = (url: string) => url.split("#")[1] ?? "";
    const [{ accountId: one }, { accountId: other }] = [await makeTenant(), await makeTenant()];
    const links = [
      (await operate("POST", "/accounts", { name: "New", email: "ops@acme.dev" }, maker.token)).body.setup_url,
      (await operate("POST", `/accounts/${one}/owners`, {}, made.token)).body.setup_url,
      (await operate("POST", `/accounts/${other}/owners`, {})).body.setup_url,
    ].map(linkIn);
    const statuses = () => Promise.all(links.map(async (token) => (await postForm("/setup/check", { token })).status));
    expect(await statuses()).toEqual([200, 200, 200]);
    expect((await operate("DELETE", `/tokens/${maker.id}`)).status).toBe(204);
    const [ofMaker = 0, ofMade = 0, ofOperator] = await statuses();
    expect([ofMaker >= 400, ofMade >= 400, ofOperator]).toEqual([true, true, 200]);
    // The link can be neither looked at nor used.
    const fields = { token: links[1] ?? "", name: "Eve", email: "eve@example.com" };
    expect((await postForm("/setup/options", fields)).status).toBe(ofMade);
  });

  it("ends together with the token that created it, even if it is created just after the revocation", async () => {
    const { body: maker } = await operate("POST", "/tokens", { name: "Maker", scopes: ["accounts:read", "tokens:write"] });
    const make = async () =>
      (await operate("POST", "/tokens", { name: "Made", scopes: ["accounts:read"] }, maker.token)).body as { id: string; token: string };
    const before = await make();
    const { body: unrelated } = await operate("POST", "/tokens", { name: "Maker", scopes: ["accounts:read"] });
    // An isolate that has seen the token accepts it for some seconds more. The row in D1 is revoked at once.
    await env.DB.prepare("UPDATE service_tokens SET revoked_at = ? WHERE id = ?").bind(Date.now(), maker.id).run();
    const after = await make();
    await env.DB.prepare("UPDATE service_tokens SET revoked_at = NULL WHERE id = ?").bind(maker.id).run();
    expect((await operate("DELETE", `/tokens/${maker.id}`)).status).toBe(204);
    const { body } = await operate("GET", `/audit?action=token.revoked&target_id=${maker.id}`);
    expect(body.data[0].details).toMatchObject({ also_revoked: [before.id] });
    vi.setSystemTime(Date.now() + 5001);
    try {
      const statusOf = async (token: string) => (await operate("GET", "/accounts", undefined, token)).status;
      expect(await Promise.all([maker, before, after, unrelated].map(({ token }) => statusOf(token)))).toEqual([401, 401, 401, 200]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("stays revoked when its object has restarted, and when D1 was set back", async () => {
    const { body } = await operate("POST", "/tokens", { name: "T", scopes: ["accounts:read"] });
    await operate("DELETE", `/tokens/${body.id}`);
    await env.DB.prepare("UPDATE service_tokens SET revoked_at = NULL WHERE id = ?").bind(body.id).run();
    await abortAllDurableObjects();
    expect((await operate("GET", "/accounts", undefined, body.token)).status).toBe(401);
  });

  it("is denied after it has expired", async () => {
    const expires = Date.now() + hourMs;
    const token = await makeToken(["accounts:read"], { expires_at: iso(expires) });
    expect((await operate("GET", "/accounts", undefined, token)).status).toBe(200);
    vi.setSystemTime(expires);
    try {
      expect((await operate("GET", "/accounts", undefined, token)).status).toBe(401);
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ["a token that nobody has signed", () => newServiceToken(newTokenId(), { name: "a", secret: "not the secret of this service" })],
    ["a signed token that does not exist", () => newServiceToken(newTokenId(), signing[0])],
    ["the id of a token", () => newTokenId()],
  ])("is needed: %s gets 401", async (_, tokenOf) => {
    for (let count = 0; count < 12; count++) {
      const answer = await operate("GET", "/accounts", undefined, tokenOf());
      expect([answer.status, answer.body.code]).toEqual([401, "invalid_token"]);
    }
  });

  it("needs the scope of each member that it changes", async () => {
    const { accountId, keyId } = await makeTenant();
    const effects: Record<string, [method: string, path: string, body?: object][]> = {
      "keys:write": [
        ["PATCH", `/keys/${keyId}`, { status: "disabled" }],
        ["PATCH", `/keys/${keyId}`, { status: "active" }],
        ["PATCH", `/keys/${keyId}`, { hourly_limit: 900 }],
      ],
      operate: [
        ["PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 900 }] }],
        ["PATCH", `/accounts/${accountId}`, { limit_ceiling: 900 }],
        ["PATCH", `/accounts/${accountId}`, { retention_days: 40 }],
        ["PATCH", `/accounts/${accountId}`, { plan_id: null }],
        ["PATCH", `/accounts/${accountId}`, { max_live_keys: 60 }],
        ["PATCH", `/accounts/${accountId}`, { on_unavailable: "known" }],
      ],
    };
    // All scopes but the one of the effect, and the one with which the way to the effect begins.
    const others = ["verify", "accounts:read", "metrics:read", "accounts:write"];
    for (const [scope, ways] of Object.entries(effects)) {
      const lacking = await makeToken([...others, scope === "operate" ? "keys:write" : "operate"]);
      const having = await makeToken(["accounts:write", scope]);
      for (const [method, path, body] of ways) {
        const denied = await operate(method, path, body, lacking);
        expect([method, path, denied.status, denied.body?.code]).toEqual([method, path, 403, "insufficient_scope"]);
        expect([method, path, (await operate(method, path, body, having)).status]).toEqual([method, path, 200]);
      }
    }
    const writing = await makeToken(["accounts:write"]);
    expect((await operate("PATCH", `/accounts/${accountId}`, { name: "N", email: null, metadata: {} }, writing)).status).toBe(200);
  });

  it("has its id beside its name in the operator audit, because names are not unique", async () => {
    const { accountId } = await makeTenant();
    const { body: made } = await operate("POST", "/tokens", { name: "tests", scopes: ["accounts:write"] });
    await operate("PATCH", `/accounts/${accountId}`, { name: "By the token" }, made.token);
    await operate("PATCH", `/accounts/${accountId}`, { name: "By the operator" });
    const { body } = await operate("GET", "/audit?limit=100");
    expect(body.data.filter(({ account_id: id }: { account_id: string }) => id === accountId)).toMatchObject([
      { operator: "tests", token_id: null, action: "account.changed" },
      { operator: "tests", token_id: made.id, action: "account.changed" },
    ]);
  });

  it("that is bound to accounts cannot touch other accounts or the deployment with any scope", async () => {
    const [own, other] = [await makeTenant(), await makeTenant()];
    const scopes = ["operate", "keys:write", "accounts:read", "accounts:write", "tokens:write"];
    const token = await makeToken(scopes, { accounts: [own.accountId] });
    const statusOf = async (method: string, path: string, body?: object) => (await operate(method, path, body, token)).status;
    for (const [method, path] of [
      ["POST", "suspend"],
      ["POST", "resume"],
      ["PUT", "ceiling"],
      ["GET", "storage"],
      ["GET", "export"],
      ["GET", "log"],
      ["POST", "owners"],
      ["POST", "erase"],
      ["GET", "erasure"],
      ["GET", "keys"],
    ] as const)
      expect([path, await statusOf(method, `/accounts/${other.accountId}/${path}`, method === "GET" ? undefined : {})]).toEqual([
        path,
        404,
      ]);
    for (const [method, path] of [
      ["GET", "/audit"],
      ["GET", "/secrets"],
      ["GET", "/plans"],
      ["POST", "/guards/reconcile"],
      ["GET", "/deliveries"],
      ["GET", "/key-forms"],
      ["DELETE", "/key-forms/frm_none"],
    ] as const)
      expect([path, await statusOf(method, path, method === "POST" ? {} : undefined)]).toEqual([path, 403]);
    expect(await statusOf("GET", "/none")).toBe(404);
    expect(await statusOf("DELETE", "/plans")).toBe(405);
    for (const action of ["revoke", "disable", "enable", "rotate"])
      expect(await statusOf("POST", `/keys/${other.keyId}/${action}`, {}), action).toBe(404);
    for (const method of ["GET", "PATCH", "DELETE"])
      expect(await statusOf(method, `/keys/${other.keyId}`, method === "PATCH" ? { name: "X" } : undefined), method).toBe(404);
    expect(await statusOf("POST", "/accounts", { name: "X", email: "x@acme.dev" })).toBe(403);
    const { body: list } = await operate("GET", "/accounts", undefined, token);
    expect(list.data.map(({ id }: { id: string }) => id)).toEqual([own.accountId]);
    expect(await statusOf("GET", `/accounts/${own.accountId}/storage`)).toBe(200);
    const { body } = await operate("GET", "/tokens", undefined, token);
    expect(body.data).toEqual([]);
  });

  it("creates only narrower tokens", async () => {
    const { accountId } = await makeTenant();
    const until = iso(Date.now() + hourMs);
    const maker = await makeToken(["verify", "accounts:read", "tokens:write"], { accounts: [accountId], expires_at: until });
    const make = async (more: object) =>
      (await operate("POST", "/tokens", { name: "N", scopes: ["verify"], accounts: [accountId], expires_at: until, ...more }, maker))
        .status;
    expect(await make({})).toBe(201);
    expect(await make({ scopes: ["metrics:read"] })).toBe(403);
    expect(await make({ scopes: ["verify", "tokens:write"] })).toBe(403);
    expect(await make({ accounts: null })).toBe(403);
    expect(await make({ expires_at: null })).toBe(403);
    expect(await make({ expires_at: iso(Date.now() + 2 * hourMs) })).toBe(403);
  });

  it.each([
    [{ scopes: [] }, "/scopes"],
    [{ scopes: ["all"] }, "/scopes/0"],
    [{ accounts: ["acc_none"] }, "/accounts/0"],
    [{ expires_at: "2020-01-01T00:00:00Z" }, "/expires_at"],
    [{ name: "" }, "/name"],
  ])("is not created with %j", async (more, pointer) => {
    const answer = await operate("POST", "/tokens", { name: "N", scopes: ["verify"], ...more });
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
  });

  it("appears as the actor in the audit of an account, and its use in the operator's audit", async () => {
    const tenant = await makeTenant();
    const { body: token } = await operate("POST", "/tokens", { name: "Provisioner", scopes: ["keys:write"] });
    const { body: key } = await operate("POST", `/accounts/${tenant.accountId}/keys`, { name: "K" }, token.token);
    expect(key.created_by).toMatchObject({ type: "token", id: token.id });
    const rows = await env.DB.prepare("SELECT actor_type, actor_id FROM audit WHERE target_id = ?").bind(key.id).all();
    expect(rows.results).toEqual([{ actor_type: "token", actor_id: token.id }]);
    const { body: audit } = await operate("GET", "/audit");
    expect(audit.data.find(({ target_id }: { target_id: string }) => target_id === key.id)).toMatchObject({
      operator: "Provisioner",
      action: "key.made",
    });
  });

  it("keeps verifying for ten minutes while its object cannot be reached, and does nothing else", async () => {
    const tenant = await makeTenant();
    const token = await makeToken(["verify", "accounts:read"]);
    expect((await verify(token, { key: tenant.key })).body.allowed).toBe(true);
    const away = vi.spyOn(Object.getPrototypeOf(env.SERVICE_TOKENS), "getByName").mockImplementation(function (
      this: DurableObjectNamespace,
      name: unknown,
    ) {
      if (name === "tokens") throw new Error("Network connection lost.");
      return this.get(this.idFromName(String(name)));
    });
    const now = Date.now();
    try {
      vi.setSystemTime(now + 9 * minuteMs);
      expect((await verify(token, { key: tenant.key })).status).toBe(200);
      expect((await operate("GET", "/accounts", undefined, token)).status).toBe(503);
      vi.setSystemTime(now + 11 * minuteMs);
      expect((await verify(token, { key: tenant.key })).status).toBe(503);
    } finally {
      vi.useRealTimers();
      away.mockRestore();
    }
    expect((await operate("GET", "/accounts", undefined, token)).status).toBe(200);
  });
});
