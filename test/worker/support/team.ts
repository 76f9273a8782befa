import { exports } from "cloudflare:workers";
import { expect } from "vitest";
import { type Answer, answerOf, call, origin, type Tenant } from "./client.ts";
import { operate } from "./operate.ts";

/** Creates a service token with the operator token of the tests. */
export async function makeToken(scopes: string[], more: object = {}): Promise<string> {
  const { status, body } = await operate("POST", "/tokens", { name: "Test", scopes, ...more });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body.token;
}

export const verify = (token: string, body: object): Promise<Answer> => operate("POST", "/verify", body, token);

export const report = async (token: string, reports: object[]) => (await operate("POST", "/reports", { reports }, token)).body.data;

/** Sends a request of a proxy. `service`: the header with the service token and the options. `headers`: the other headers, with those of the client. */
export const forward = async (
  service: string,
  headers: Record<string, string> = {},
  { method = "GET", suffix = "" }: { method?: string; suffix?: string } = {},
): Promise<Answer> =>
  answerOf(
    await exports.default.fetch(
      new Request(`${origin}/team/v1/verify/forward${suffix}`, {
        method,
        headers: service === "" ? headers : { ...headers, "X-Service-Token": service },
      }),
    ),
  );

/** Returns the entries of requests that were verified. The requests of the tests themselves are left out. */
export const verifiedEntries = async ({ key }: Tenant, query = "") =>
  (await call("GET", `/api/v1/activity?limit=100${query}`, { key })).body.data.filter(
    ({ route }: { route: string }) => !route.startsWith("/api/v1"),
  );

/** Returns the units that a key has used of its limit per hour. */
export const usedOf = async ({ key }: { key: string }): Promise<number> => {
  const { policies } = (await call("GET", "/api/v1/rate-limit", { key })).body;
  return policies.find(({ name }: { name: string }) => name === "hour").used;
};
