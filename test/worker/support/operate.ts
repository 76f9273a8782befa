import { exports } from "cloudflare:workers";
import { expect } from "vitest";
import { closedTeamDocument } from "../../../scripts/openapi/team-document.ts";
import { teamRouters } from "../../../src/team/team-routers.ts";
import { type Answer, answerOf, origin } from "./client.ts";
import { documentedIn } from "./documented.ts";

/** The operator token. vitest.config.ts configures the hash of this token under the name `tests`. */
export const operatorToken = "dvop_token-of-the-tests";

export const ofTeam = documentedIn(closedTeamDocument(teamRouters));

/** Calls the team API. Fails if the operation does not document the response. */
export async function operate(
  method: string,
  path: string,
  body?: unknown,
  token = operatorToken,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const request = new Request(`${origin}/team/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const response = await answerOf(await exports.default.fetch(request));
  ofTeam.checkResponse(method, `/team/v1${path}`, response);
  return response;
}

/** Returns the names of the operator's actions on an account, newest first. */
export async function operatorActionsOn(accountId: string): Promise<string[]> {
  const { body } = await operate("GET", "/audit?limit=100");
  return body.data.filter((each: { account_id: string }) => each.account_id === accountId).map(({ action }: { action: string }) => action);
}

/**
 * Reconciles the guards of the given keys of an account. A full reconciliation would include the keys of all other tests, so this function
 * reconciles only the parts that contain the given keys.
 */
export async function reconcileGuards(accountId: string, ...keyIds: string[]) {
  const result = { reconciled: [] as string[], revoked: [] as string[] };
  for (const after of [...keyIds.map((id) => `rows:${id.slice(0, -1)}`), `audit:${accountId}/`]) {
    const { status, body } = await operate("POST", "/guards/reconcile", { after });
    expect([status, body.unreachable]).toEqual([200, []]);
    result.reconciled.push(...body.reconciled);
    result.revoked.push(...body.revoked);
  }
  return result;
}
