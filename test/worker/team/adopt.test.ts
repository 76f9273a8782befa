import { createHash } from "node:crypto";
import { beforeAll, expect, it } from "vitest";
import { makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken } from "../support/team.ts";

let token: string;
beforeAll(async () => {
  token = await makeToken(["keys:adopt"]);
});

const hashOf = (secret: string) => createHash("sha256").update(secret).digest("hex");
const newAccount = async () => {
  const external = `adopting_${crypto.randomUUID()}`;
  const { body } = await operate("PUT", `/accounts/by-external-id/${external}`, { name: "Adopting" });
  return { external, id: body.id as string };
};
const adopt = (external: string, secret: string, more: object = {}, as = token) =>
  operate("POST", "/keys/adopt", { external_id: external, hash: hashOf(secret), algorithm: "sha256", ...more }, as);

it("A token with keys:adopt adopts a key, which decides about its request at once, and can do nothing else with it", async () => {
  const { external, id } = await newAccount();
  const secret = crypto.randomUUID();
  const { status, body } = await adopt(external, secret, { request: { method: "GET", path: "/orders" } });
  expect([status, body.is_new, body.answer]).toMatchObject([200, true, { allowed: true, account: { id }, key: { id: body.id } }]);
  expect((await adopt(external, secret)).body).toEqual({ id: body.id, is_new: false, answer: null });
  const others: [string, string, object?][] = [
    ["GET", `/keys/${body.id}`],
    ["PATCH", `/keys/${body.id}`, { name: "Mine" }],
    ["POST", `/keys/${body.id}/revoke`],
    ["POST", `/accounts/${id}/keys/import`, { keys: [{ name: "x", hash: hashOf("x"), algorithm: "sha256" }] }],
    ["GET", "/accounts"],
    ["POST", "/verify", { key: secret }],
  ];
  for (const [method, path, sent] of others) expect([path, (await operate(method, path, sent, token)).status]).toEqual([path, 403]);
});

it("A known hash stays as it is: that of another account is a conflict, and a revoked key stays revoked", async () => {
  const [one, other] = [await newAccount(), await newAccount()];
  const secret = crypto.randomUUID();
  const { body } = await adopt(one.external, secret);
  expect((await adopt(other.external, secret)).status).toBe(409);
  await operate("POST", `/keys/${body.id}/revoke`);
  const again = await adopt(one.external, secret, { request: {} });
  expect(again.body).toMatchObject({ id: body.id, is_new: false, answer: { allowed: false, code: "revoked_key" } });
});

it("Adoption needs an account that the token may act on, and a SHA-256", async () => {
  const { external } = await newAccount();
  const bound = await makeToken(["keys:adopt"], { accounts: [(await makeTenant()).accountId] });
  expect((await adopt("nobody", "secret")).status).toBe(404);
  expect((await adopt(external, "secret", {}, bound)).status).toBe(404);
  for (const more of [{ hash: "secret" }, { hash: hashOf("a").toUpperCase() }, { algorithm: "md5" }])
    expect((await adopt(external, "secret", more)).status).toBe(422);
});
