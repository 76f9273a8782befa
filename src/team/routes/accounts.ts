import { createRoute, z } from "@hono/zod-openapi";
import { type Account, accountsAfter, readAccount, readAccountByExternalId } from "../../accounts/account.ts";
import { etagOfContent, preconditionOf, respondOne } from "../../api/conditional.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, get, mergePatch, patch, post, put, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { pageQuery } from "../../api/route-parts/schemas.ts";
import { inPeriodOrder } from "../../budget/limits.ts";
import { connect } from "../../db/client.ts";
import { requirePrecondition, retry, retryOnConflict } from "../../db/optimistic-locking.ts";
import { accountsWithMembers } from "../../identity/invitations.ts";
import { externalId, patched } from "../../keys/metadata.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { omitUndefined } from "../../lib/inputs/omit-undefined.ts";
import { makeAccount, makeTeamAccount } from "../../lifecycle/accounts.ts";
import { changeAccount } from "../../lifecycle/change-account.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { leastBusyWriter } from "../../log/writers.ts";
import { accountFor, operatorContext, requireScope, setupUrl, type TeamContext } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { accountPath, createTeamRouter, requireTokenScope, teamBase, teamJson, teamNotModified, teamPostJson } from "../team-router.ts";
import { mayActOn, scopeOf } from "../tokens/token.ts";
import { AccountData, AccountPatch, AccountUpsert, accountData, ChangedAccount, NewAccount, setupUrlData } from "./account-schemas.ts";

const tags = ["Accounts"];

/** The members of a change that set the terms of an account. */
const ofTerms = ["on_unavailable", "plan_id", "max_live_keys", "limit_ceiling", "limits", "retention_days"] as const;

const etagOf = (account: Account) => etagOfContent(accountData(account));
const createdHeaders = (account: Account) => ({ Location: `${teamBase}/accounts/${account.id}`, ETag: etagOf(account) });
const requireMatch = (c: TeamContext, account: Account) => {
  const tag = etagOf(account);
  requirePrecondition({ revision: tag.slice(1, -1) }, preconditionOf(c), "account");
};

export const routes = createTeamRouter();

const list = createRoute({
  ...get("/accounts", "listAccounts", "List accounts"),
  description: "Lists the accounts, oldest first.",
  tags,
  ...requireTokenScope("accounts:read", "handler"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      external_id: z
        .string()
        .min(1)
        .max(200)
        .optional()
        .meta({ description: "Returns only the account with this external id.", example: "cus_4711" }),
      email: z
        .string()
        .min(1)
        .max(254)
        .optional()
        .meta({ description: "Returns only accounts with this email address.", example: "ops@acme.dev" }),
      q: z
        .string()
        .min(1)
        .max(100)
        .optional()
        .meta({ description: "Returns only accounts whose name, email address or external id contains this text.", example: "acme" }),
    }),
  },
  responses: {
    200: teamJson(
      pageOf(
        z.strictObject({
          ...AccountData.shape,
          is_claimed: z.boolean().meta({ description: "Whether a member has joined.", example: true }),
        }),
        "AccountPage",
      ),
      "A page of accounts.",
      "Link",
    ),
  },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, external_id: external, email, q } = c.req.valid("query");
  const db = connect(c.env.DB);
  const after = positionAt(c, cursor, z.string());
  const filter = { externalId: external, email, q, ids: c.get("token").accountIds };
  const page = await accountsAfter(db, after ?? "", limit + 1, filter);
  const shown = page.slice(0, limit);
  const claimed = await accountsWithMembers(
    db,
    shown.map(({ id }) => id),
  );
  const data = shown.map((account) => ({ ...accountData(account), is_claimed: claimed.has(account.id) }));
  return respondPage(c, data, page.length > limit ? (shown.at(-1)?.id ?? null) : null);
});

const create = createRoute({
  ...post("/accounts", "createAccount", "Create an account"),
  description:
    "Creates an account. The response contains a setup link for its first owner. If nobody of the customer uses the overview, ignore the link.",
  tags,
  ...requireTokenScope("accounts:write", "handler"),
  ...withIdempotencyKey,
  ...failsWith("conflict", "forbidden"),
  request: { body: body(NewAccount) },
  responses: {
    201: teamPostJson(z.strictObject({ ...AccountData.shape, setup_url: setupUrlData }), "The new account.", "ETag", "Location"),
  },
});

routes.openapi(create, async (c) => {
  if (c.get("token").accountIds !== null) throw boundToken();
  const { name, email, external_id: external, metadata: values } = c.req.valid("json");
  // If `PUBLIC_ORIGIN` is not set, this call throws before anything is created.
  setupUrl(c, "");
  const input = omitUndefined({ name, email, externalId: external, metadata: values });
  const logWriter = await leastBusyWriter(c.env);
  return runTeamPost(
    c,
    (context) => makeAccount(context, { ...input, name, email, logWriter }),
    ({ account, setupToken }) => {
      const shown = { ...accountData(account), setup_url: null };
      const body = { ...shown, setup_url: setupUrl(c, setupToken) as string | null };
      return { status: 201, body, stored: shown, headers: createdHeaders(account) };
    },
  );
});

const boundToken = () => new Failure("forbidden", "A service token that is bound to accounts cannot create accounts.");

const upsert = createRoute({
  ...put("/accounts/by-external-id/{external_id}", "putAccountByExternalId", "Create or update an account by its external id"),
  description:
    "Creates the account with this external id, or updates its name, its email address and its metadata. Members that are absent stay as they are. Sending the same request again changes nothing.",
  tags,
  ...requireTokenScope("accounts:write", "handler"),
  ...failsWith("conflict"),
  ...withConditions,
  request: {
    params: z.object({
      external_id: externalId.meta({
        param: { name: "external_id", in: "path", description: "The id of the account in your own system." },
        example: "cus_4711",
      }),
    }),
    body: body(AccountUpsert),
  },
  responses: {
    200: teamJson(AccountData, "The updated account.", "ETag"),
    201: teamJson(AccountData, "The new account.", "ETag", "Location"),
  },
});

routes.openapi(upsert, async (c) => {
  const { name, email, metadata: values } = c.req.valid("json");
  const { external_id: external } = c.req.valid("param");
  const db = connect(c.env.DB);
  const given = omitUndefined({ name, email: email === null ? "" : email, metadata: values });
  return retryOnConflict(async () => {
    const found = await readAccountByExternalId(db, external);
    if (found && mayActOn(c.get("token"), found.id)) {
      await requireNotErased(db, found.id);
      let isMoved = false;
      await changeAccount(operatorContext(c), found.id, (before) => {
        isMoved = before.externalId !== external;
        if (isMoved) return {};
        requireMatch(c, before);
        return given;
      });
      if (isMoved) return retry;
      const account = await readAccount(db, found.id);
      return respondJson(c, accountData(account), 200, { ETag: etagOf(account) });
    }
    // For a bound token, the accounts of others do not exist, and it cannot create any.
    if (c.get("token").accountIds !== null) throw new Failure("not_found", "There is no such account.");
    if (c.req.header("If-Match") !== undefined) throw new Failure("precondition_failed", "There is no account with this external id yet.");
    const input = { ...given, email: email ?? "", name, externalId: external, logWriter: await leastBusyWriter(c.env) };
    // If another request creates the account at the same moment, this request updates it.
    const account = await makeTeamAccount(operatorContext(c), input).catch((error: unknown) => {
      if (error instanceof Failure && error.code === "conflict") return null;
      throw error;
    });
    return account === null ? retry : respondJson(c, accountData(account), 201, createdHeaders(account));
  });
});

const read = createRoute({
  ...get("/accounts/{id}", "getAccount", "Get an account"),
  description: "Returns one account.",
  tags,
  ...requireTokenScope("accounts:read", "path"),
  ...withConditions,
  request: { params: accountPath },
  responses: { 200: teamJson(AccountData, "The account.", "ETag"), ...teamNotModified },
});

routes.openapi(read, async (c) => {
  const account = await accountFor(c, c.req.valid("param").id);
  return respondOne(c, accountData(account), etagOf(account));
});

const change = createRoute({
  ...patch("/accounts/{id}", "updateAccount", "Change an account"),
  description:
    "Changes an account. When the response is sent, the new limits and values are active for all of its keys. `plan_id`, `limits`, `limit_ceiling`, `max_live_keys`, `retention_days` and `on_unavailable` need the scope `operate`.",
  tags,
  ...requireTokenScope("accounts:write", "path"),
  ...failsWith("conflict"),
  ...withConditions,
  request: { params: accountPath, body: mergePatch(AccountPatch) },
  responses: { 200: teamJson(ChangedAccount, "The account after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const {
    name,
    email,
    external_id: external,
    metadata: changes,
    on_unavailable: onUnavailable,
    max_live_keys: maxKeys,
    ...terms
  } = c.req.valid("json");
  if (ofTerms.some((member) => c.req.valid("json")[member] !== undefined)) requireScope(c.get("token"), scopeOf.accountTerms);
  const { id } = c.req.valid("param");
  await accountFor(c, id);
  await requireNotErased(connect(c.env.DB), id);
  const { plan_id: planId, limit_ceiling: limitCeiling, limits, retention_days: days } = terms;
  const changed = await changeAccount(operatorContext(c), id, (before) => {
    requireMatch(c, before);
    return omitUndefined({
      name,
      email: email === null ? "" : email,
      externalId: external,
      metadata: patched(before.metadata, changes),
      onUnavailable,
      maxLiveKeys: maxKeys,
      planId,
      limitCeiling,
      limits: limits && inPeriodOrder(limits),
      retentionDays: days,
    });
  });
  const account = await readAccount(connect(c.env.DB), id);
  return respondJson(c, { ...accountData(account), lowered: changed }, 200, { ETag: etagOf(account) });
});
