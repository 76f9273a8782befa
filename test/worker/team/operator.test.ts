import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { namesByAge, placesWithout, secretsIn } from "../../../src/lib/crypto/secrets.ts";
import { timeOfId } from "../../../src/lib/ids.ts";
import { dayMs, dayStart, hourMs } from "../../../src/lib/time/clock.ts";
import { encrypt } from "../../../src/webhooks/subscriptions/encryption.ts";
import { answerOf, call, cron, makeKey, makeTenant, origin } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";
import { readEntries } from "../support/log-rows.ts";
import { operate, operatorActionsOn, operatorToken } from "../support/operate.ts";
import { backdateOperatorSessions, replaceTokenOfOperatorSessions } from "../support/operations-rows.ts";
import { formHeaders } from "../support/people.ts";
import { register, verifyRequest, waitForRequest } from "../support/receiver.ts";
import { tryKey } from "../support/try-key.ts";
import { readWebhookRow } from "../support/webhook-rows.ts";

const readEncryptedSecret = async (webhookId: string) => String((await readWebhookRow(webhookId))?.encrypted_secret);

const setEncryptedSecret = (webhookId: string, encryptedSecret: string) =>
  env.DB.prepare("UPDATE webhooks SET encrypted_secret = ? WHERE id = ?").bind(encryptedSecret, webhookId).run();

/** Inserts usage for yesterday. The account then has more requests than any account of another test. */
const insertLargeUsage = (accountId: string) =>
  env.ACTIVITY_0.prepare("INSERT INTO day_totals (account_id, start, part, totals, keys) VALUES (?, ?, 0, ?, '[]')")
    .bind(
      accountId,
      dayStart(Date.now()) - dayMs,
      '{"byStatus":{"200":[900000,1,1,1],"429":[800000,0,0,0],"503":[700000,1,1,1]},"histogram":{}}',
    )
    .run();

describe("The operator API", () => {
  it.each([
    ["no token", "198.18.0.1", undefined],
    ["an unknown token", "198.18.0.2", "Bearer dvop_another"],
    ["the hash of the token", "198.18.0.3", "Bearer 0000"],
    ["an API key", "198.18.0.4", "Bearer dvo_0000000000000000_0000000000000000000000000000000000000000"],
    ["the token in another authentication scheme", "198.18.0.5", `Basic ${operatorToken}`],
  ])("returns 401 for a request with %s", async (_, ip, authorization) => {
    // An IP address may send only ten wrong tokens a minute. Each case therefore has its own IP address.
    const headers = { "CF-Connecting-IP": ip, ...(authorization !== undefined && { Authorization: authorization }) };
    for (const [method, path] of [
      ["GET", "/team/v1/accounts"],
      ["POST", "/team/v1/guards/reconcile"],
      ["GET", "/team/v1/none"],
      ["GET", "/team/v1"],
      ["GET", "/metrics"],
    ] as const) {
      const answer = await answerOf(await exports.default.fetch(new Request(origin + path, { method, headers })));
      expect([path, answer.status, answer.body.code]).toEqual([path, 401, "invalid_token"]);
      const isSent = authorization?.startsWith("Bearer ");
      expect(answer.headers.get("WWW-Authenticate")).toBe(`Bearer realm="operator"${isSent ? ', error="invalid_token"' : ""}`);
      expect(answer.headers.get("Cache-Control")).toBe("no-store");
    }
  });

  it("ignores a token in the URL", async () => {
    const path = `/team/v1/accounts?token=${operatorToken}&access_token=${operatorToken}`;
    expect((await exports.default.fetch(new Request(origin + path))).status).toBe(401);
  });

  it.each([
    ["PATCH", "/accounts/acc_none", { limit_ceiling: 0 }, 422],
    ["PATCH", "/accounts/acc_none", { retention_days: 91 }, 422],
    ["PUT", "/accounts/acc_none/storage-quota", { bytes: -1 }, 422],
    ["POST", "/accounts/acc_none/erase", { confirm: "acc_none" }, 404],
    ["POST", "/accounts/acc_none/erase", { confirm: "acc_other" }, 409],
    ["GET", "/accounts/acc_none/export", undefined, 404],
    ["POST", "/guards/reconcile", { after: "constructor:x" }, 400],
  ])("rejects %s %s %j with status %i", async (method, path, body, status) => {
    const answer = await operate(method, path, body);
    expect([answer.status, answer.headers.get("Content-Type")]).toEqual([status, "application/problem+json"]);
  });

  it("creates, disables, enables, limits and revokes keys, each with immediate effect", async () => {
    const { accountId } = await makeTenant();
    const { status, body } = await operate("POST", `/accounts/${accountId}/keys`, { name: "CI", scopes: ["tasks:read"], hourly_limit: 7 });
    expect([status, await tryKey(body.secret_key)]).toEqual([201, 200]);
    await operate("POST", `/keys/${body.id}/disable`);
    expect(await tryKey(body.secret_key)).toBe("disabled_key");
    await operate("POST", `/keys/${body.id}/enable`);
    expect(await tryKey(body.secret_key)).toBe(200);
    await operate("PUT", `/keys/${body.id}/limit`, { limit: 9 });
    expect((await call("GET", "/api/v1/me", { key: body.secret_key })).headers.get("X-RateLimit-Limit")).toBe("9");
    await operate("POST", `/keys/${body.id}/revoke`);
    expect(await tryKey(body.secret_key)).toBe("revoked_key");
    expect(await operatorActionsOn(accountId)).toEqual(["key.revoked", "key.limited", "key.enabled", "key.disabled", "key.made"]);
    const { body: keys } = await operate("GET", `/accounts/${accountId}/keys`);
    expect(keys.data[0]).toMatchObject({ id: body.id, status: "revoked", hourly_limit: 9 });
    expect(JSON.stringify(keys)).not.toContain(body.secret_key.slice(-20));
  });

  it("says that a new ceiling is not yet active while more keys must be lowered than one call can lower", async () => {
    const { accountId } = await makeTenant();
    await operate("PATCH", `/accounts/${accountId}`, { max_live_keys: 100 });
    for (let made = 0; made < 59; made++) await makeKey(accountId, { scopes: [] });
    const first = await operate("PATCH", `/accounts/${accountId}`, { limit_ceiling: 100 });
    expect([first.status, first.body.code, first.body.detail]).toEqual([
      503,
      "unavailable",
      expect.stringContaining("50 keys have their new limits"),
    ]);
    const second = await operate("PATCH", `/accounts/${accountId}`, { limit_ceiling: 100 });
    expect([second.status, second.body.lowered.length]).toEqual([200, 10]);
    const { body } = await operate("GET", `/accounts/${accountId}/keys?limit=100&status=active`);
    expect(body.data.map(({ hourly_limit }: { hourly_limit: number }) => hourly_limit)).toEqual(Array.from({ length: 60 }, () => 100));
  });

  it("shows the storage of an account, and sets its storage quota and its log retention, which hides older entries at once", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const createTask = () => call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const readAccount = async () => (await operate("GET", `/accounts/${accountId}`)).body;
    await createTask();
    const { body } = await operate("GET", `/accounts/${accountId}/storage`);
    expect(body.tasks).toEqual({ stored: 1, most: 100_000 });
    expect([body.bytes.most, body.bytes.stored > 1000, body.dropped_events]).toEqual([256 * 1024 * 1024, true, 0]);
    expect((await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1000 })).body).toEqual({ storage_quota_bytes: 1000 });
    expect((await operate("GET", `/accounts/${accountId}/storage`)).body.bytes).toEqual({ stored: expect.any(Number), most: 1000 });
    expect((await createTask()).body.code).toBe("limit_reached");
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: null });
    expect((await readAccount()).storage_quota_bytes).toBe(256 * 1024 * 1024);
    expect((await createTask()).status).toBe(201);
    await write([8, 6].map((days) => entryOf({ accountId, keyId }, Date.now() - days * dayMs)));
    const countOld = async () => (await readEntries(accountId)).filter(({ id }) => timeOfId(id) < Date.now() - dayMs).length;
    expect(await countOld()).toBe(2);
    await operate("PATCH", `/accounts/${accountId}`, { retention_days: 7 });
    expect([(await readAccount()).retention_days, await countOld()]).toEqual([7, 1]);
    await operate("PATCH", `/accounts/${accountId}`, { retention_days: null });
    expect((await readAccount()).retention_days).toBeNull();
  });
});

describe("The secrets of the Worker", () => {
  it("are listed with the number of their uses, and webhook secrets can be encrypted again with the newest secret", async () => {
    const { key, accountId } = await makeTenant();
    const webhook = await register(key, { event_types: ["task.created"] });
    expect((await readEncryptedSecret(webhook.id)).startsWith("b.")).toBe(true);
    const olderSecret = { name: "a", secret: "sealing-secret-of-the-tests".padEnd(40, "-") };
    await setEncryptedSecret(webhook.id, await encrypt(webhook.secret, webhook.id, [olderSecret]));
    const readSecrets = async () => (await operate("GET", "/secrets")).body;
    const isNamed = (wanted: string) => (secret: { name: string }) => secret.name === wanted;
    const before = await readSecrets();
    expect(before.signing.find(isNamed("b"))).toMatchObject({ is_newest: true, is_there: true });
    expect(before.encryption.find(isNamed("a")).used).toBeGreaterThan(0);
    for (let hasMore = true; hasMore; ) hasMore = (await operate("POST", "/secrets/reencrypt")).body.has_more;
    expect((await readEncryptedSecret(webhook.id)).startsWith("b.")).toBe(true);
    const after = await readSecrets();
    expect(after.encryption.find(isNamed("a")).used).toBe(0);
    // A secret that is damaged holds back no other one.
    const damaged = await register(key, { event_types: ["task.created"] });
    await setEncryptedSecret(damaged.id, "a.damaged");
    expect((await operate("POST", "/secrets/reencrypt")).body).toEqual({ reencrypted: 0, has_more: false });
    await env.DB.prepare("DELETE FROM webhooks WHERE id = ?").bind(damaged.id).run();
    // The Worker does not have the secret of another one.
    const lost = await register(key, { event_types: ["task.created"] });
    await setEncryptedSecret(lost.id, `z${(await readEncryptedSecret(lost.id)).slice(1)}`);
    const { encryption, need_lost: needing } = await readSecrets();
    const status = await operate("GET", "/status");
    await env.DB.prepare("DELETE FROM webhooks WHERE id = ?").bind(lost.id).run();
    expect(encryption.find(isNamed("z"))).toEqual({ name: "z", is_newest: false, is_there: false, used: 1 });
    expect(needing).toContainEqual({ id: lost.id, account_id: accountId });
    expect(status.body.needs_attention).toContainEqual({
      name: "SecretMissing",
      severity: "page",
      summary: expect.stringMatching(/ needs a secret that the Worker has lost\. To see all: operator secrets list\.$/),
      runbook: "docs/runbooks/rotate-secrets.md#a-lost-secret",
    });
    expect((await readSecrets()).need_lost).not.toContainEqual({ id: lost.id, account_id: accountId });
    await call("POST", "/api/v1/tasks", { key, body: { title: "encrypted again" } });
    expect(verifyRequest(webhook.secret, await waitForRequest(webhook.path))).toMatchObject({ type: "task.created" });
  });
});

it("The names of the secrets are known by age, even if the Worker has none", () => {
  const env = { KEY_SIGNING_SECRETS: `a:${"x".repeat(32)}`, KEY_SIGNING_SECRETS_2: `b:${"y".repeat(32)}` };
  expect(namesByAge(env, "KEY_SIGNING_SECRETS")).toEqual(["b", "a"]);
  expect(namesByAge({ KEY_SIGNING_SECRETS: env.KEY_SIGNING_SECRETS }, "KEY_SIGNING_SECRETS")).toEqual(["a"]);
  // A space after the colon makes a pair that nobody can read. The other secret works.
  const malformed = { ...env, KEY_SIGNING_SECRETS_2: `b: ${"y".repeat(32)}` };
  expect(placesWithout(malformed, ["KEY_SIGNING_SECRETS"])).toEqual(["KEY_SIGNING_SECRETS_2"]);
  expect(secretsIn(malformed, "KEY_SIGNING_SECRETS").map(({ name }) => name)).toEqual(["a"]);
  expect(() => secretsIn({}, "KEY_SIGNING_SECRETS")).toThrow("must hold pairs");
  expect([namesByAge({}, "KEY_SIGNING_SECRETS"), placesWithout({}, ["KEY_SIGNING_SECRETS"])]).toEqual([
    [],
    ["KEY_SIGNING_SECRETS", "KEY_SIGNING_SECRETS_2"],
  ]);
});

describe("Metrics", () => {
  it("are in OpenMetrics format, and describe the deployment but no account", async () => {
    const { accountId } = await makeTenant();
    await cron();
    const answer = await answerOf(
      await exports.default.fetch(
        new Request(`${origin}/metrics`, {
          headers: {
            Authorization: `Bearer ${operatorToken}`,
            Accept: "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2",
          },
        }),
      ),
    );
    expect(answer.headers.get("Content-Type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
    expect(answer.text.endsWith("# EOF\n")).toBe(true);
    expect(answer.text).toMatch(/^dvo_accounts \d+$/m);
    expect(answer.text).toMatch(/^dvo_database_size_bytes\{database="ACTIVITY_0"\} \d+$/m);
    expect(answer.text).toMatch(/^dvo_unknown_parts 0$/m);
    for (const name of ["dvo_requests_total", "dvo_request_duration_seconds_count", "dvo_request_duration_seconds_sum"])
      expect(answer.text).toMatch(new RegExp(`^${name}\\{class="read",.*writer="ACTIVITY_0/0"\\} \\d`, "m"));
    expect(answer.text).toMatch(/^dvo_request_duration_seconds_bucket\{class="write",writer="ACTIVITY_0\/0",le="1\.0"\} \d+$/m);
    expect(answer.text).toMatch(/^dvo_log_dropped_entries_total\{writer="ACTIVITY_0\/0"\} \d+$/m);
    for (const line of answer.text.trim().split("\n"))
      expect(line).toMatch(/^(# (TYPE|HELP|UNIT) dvo_\w+ .+|# EOF|dvo_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[\d.e+-]+)$/);
    // Prometheus would rename these labels, because each of its targets has them.
    expect(answer.text).not.toMatch(/[{,](?:job|instance)="/);
    expect(answer.text).toMatch(/^dvo_job_age_seconds\{scheduled_job="\w[^"]*"\} /m);
    expect(answer.text).not.toContain(accountId);
  });

  it.each([undefined, "*/*", "text/plain;version=0.0.4;q=1,*/*;q=0.1", "application/openmetrics-text;q=0,*/*"])(
    "come in the older text format for the Accept header %s",
    async (accept) => {
      const headers = { Authorization: `Bearer ${operatorToken}`, ...(accept && { Accept: accept }) };
      const answer = await answerOf(await exports.default.fetch(new Request(`${origin}/metrics`, { headers })));
      expect(answer.headers.get("Content-Type")).toBe("text/plain; version=0.0.4; charset=utf-8");
      expect(answer.text).not.toMatch(/^# (?:EOF|UNIT)/m);
      expect(answer.text).toMatch(/^# TYPE dvo_requests_total counter\n# HELP dvo_requests_total /m);
      expect(answer.text).toMatch(/^dvo_requests_total\{.*\} \d+$/m);
      expect(answer.text).toMatch(/^# TYPE dvo_request_duration_seconds histogram$/m);
    },
  );
});

describe("The operator page", () => {
  const send = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
    exports.default.fetch(new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) }));
  const readPage = async (headers: Record<string, string>) => (await send("GET", "/operator", headers)).text();
  const signIn = () => send("POST", "/operator/session", formHeaders, `token=${operatorToken}`);
  const cookieOf = (response: Response) => (response.headers.get("Set-Cookie") ?? "").split(";")[0] ?? "";

  it("leads to the documentation for the team, which only operators can read", async () => {
    const headers = { Cookie: cookieOf(await signIn()) };
    const paths = [
      "/docs/team",
      "/docs/team/protect-an-existing-api",
      "/docs/team/take-over-an-api",
      "/docs/team/node",
      "/docs/team/api/verify",
      "/docs/team/api/eraseAccount",
    ];
    for (const path of paths) {
      const page = await send("GET", path, headers);
      expect([path, page.status]).toEqual([path, 200]);
      expect(await page.text()).toContain("Documentation for the team");
      expect(await (await send("GET", path)).text()).toContain("Operator token");
    }
    expect(await (await send("GET", "/docs/team/api/verify", headers)).text()).toContain("Your own id of the request");
    expect((await send("GET", "/docs/team/none", headers)).status).toBe(404);
  });

  it("opens the page of the documentation that was asked for after signing in, and no other place", async () => {
    const asked = "/docs/team/api/verify";
    expect(await (await send("GET", asked)).text()).toContain(`name="return_to" value="${asked}"`);
    const openedFrom = async (returnTo: string) => {
      const body = new URLSearchParams({ token: operatorToken, return_to: returnTo }).toString();
      return (await send("POST", "/operator/session", formHeaders, body)).headers.get("Location");
    };
    expect(await openedFrom(asked)).toBe(asked);
    for (const elsewhere of ["https://evil.example", "//evil.example", "/docs/team/../../keys", "/keys"])
      expect([elsewhere, await openedFrom(elsewhere)]).toEqual([elsewhere, "/operator"]);
  });

  it("asks for a token, accepts the token only from its own form, and stays open for one hour", async () => {
    expect(await (await send("GET", `/operator?token=${operatorToken}`)).text()).toContain("Operator token");
    const wrongToken = await send("POST", "/operator/session", formHeaders, "token=dvop_wrong");
    expect([wrongToken.status, wrongToken.headers.get("Set-Cookie")]).toEqual([403, null]);
    const multipart = await send("POST", "/operator/session", { Origin: origin, "Content-Type": "multipart/form-data" }, "x");
    expect(multipart.status).toBe(415);
    const otherSite = { ...formHeaders, Origin: "https://evil.example" };
    expect((await send("POST", "/operator/session", otherSite, `token=${operatorToken}`)).status).toBe(403);
    const signedIn = await signIn();
    expect([signedIn.status, signedIn.headers.get("Location")]).toEqual([303, "/operator"]);
    expect(signedIn.headers.get("Set-Cookie")).toMatch(
      /^operator=[\w-]{43}\.[\w%]{43,90}; Max-Age=3600; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "A secret plan" } });
    await insertLargeUsage(accountId);
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1 });
    const page = await readPage({ Cookie: cookieOf(signedIn) });
    for (const text of ["The deployment", "Request log", "Most requests", "Most storage", "Gone quiet"]) expect(page).toContain(text);
    expect(page.split(accountId).length - 1).toBe(4);
    expect(page).not.toContain("A secret plan");
    await backdateOperatorSessions(hourMs + 1);
    expect(await readPage({ Cookie: cookieOf(signedIn) })).toContain("Operator token");
  });

  it("closes after its token is removed from the configuration, and after a sign-out", async () => {
    const first = cookieOf(await signIn());
    await replaceTokenOfOperatorSessions();
    expect(await readPage({ Cookie: first })).toContain("Operator token");
    const second = cookieOf(await signIn());
    await send("POST", "/operator/sign-out", { ...formHeaders, Cookie: second }, "");
    expect(await readPage({ Cookie: second })).toContain("Operator token");
  });
});
