import { expect, it } from "vitest";
import { makeTenant, within2s } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken, verifiedEntries } from "../support/team.ts";

const finding = (more: object) => ({ account: null, key: null, code: null, own: "allowed", credential: null, count: 1, ...more });
const send = async (holder: string, sequence: number, findings: object[], token?: string) =>
  (await operate("POST", "/shadow", { holder, sequence, findings }, token)).status;
const report = async () => (await operate("GET", "/shadow")).body;

it("A message of a process counts once, even if it is sent again, and a lost one is sent later", async () => {
  await operate("DELETE", "/shadow");
  const holder = crypto.randomUUID();
  const found = [
    finding({ count: 5 }),
    finding({ code: "revoked_key", account: "acc_1", key: "key_1", method: "GET", path: "/orders/7?x=1" }),
  ];
  expect([await send(holder, 1, found), await send(holder, 1, found), await send(holder, 2, found)]).toEqual([204, 204, 204]);
  // The service has not decided about one in time. That is neither a denial nor a difference.
  expect(await send(crypto.randomUUID(), 1, [finding({ own: "denied" }), finding({ code: "unavailable" })])).toBe(204);
  const { requests, denials, undecided, differences, findings } = await report();
  expect([requests, denials, undecided, differences]).toEqual([14, 2, 1, 3]);
  expect(findings).toMatchObject([
    { code: "revoked_key", account: "acc_1", key: "key_1", count: 2, differs: true, request: "GET /orders/7" },
    { code: null, own: "denied", count: 1, differs: true },
    { code: "unavailable", differs: false },
  ]);
});

it("A token that is bound to accounts reports nothing about others, and cannot read the report", async () => {
  await operate("DELETE", "/shadow");
  const { accountId } = await makeTenant();
  const bound = await makeToken(["verify", "accounts:read"], { accounts: [accountId] });
  const found = [finding({ code: "expired_key", account: accountId }), finding({ code: "expired_key", account: "acc_of_others" })];
  expect(await send(crypto.randomUUID(), 1, found, bound)).toBe(204);
  expect((await report()).findings).toMatchObject([{ account: accountId }]);
  expect((await operate("GET", "/shadow", undefined, bound)).status).toBe(403);
});

it("Erasing an account erases its findings", async () => {
  const { accountId } = await makeTenant();
  await send(crypto.randomUUID(), 1, [finding({ code: "expired_key", account: accountId })]);
  const erase = async () => (await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId })).body.status;
  await within2s(erase, (status) => status === "erased");
  expect((await report()).findings.filter(({ account }: { account: string }) => account === accountId)).toEqual([]);
});

it("A denial in shadow mode is not in the customer's log, unless it is enforced", async () => {
  const tenant = await makeTenant();
  const verify = async (path: string, shadow?: object) =>
    (await operate("POST", "/verify", { key: tenant.key, scope: "nobody:has", path, ...(shadow && { shadow }) })).body.enforced;
  expect(await verify("/one", {})).toBe(false);
  expect(await verify("/two", { accounts: [tenant.accountId] })).toBe(true);
  const paths = async () => (await verifiedEntries(tenant)).map(({ path }: { path: string }) => path);
  await within2s(paths, (found) => found.join() === "/two");
  expect(await verify("/three", { share: 1 })).toBe(true);
  expect(await verify("/four")).toBe(true);
});
