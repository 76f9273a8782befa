import { createRoute, z } from "@hono/zod-openapi";
import { type Account, accountsAfter, readAccount, readAccountByExternalId } from "../../accounts/account.ts";
import { planOf } from "../../accounts/plan.ts";
import { databaseOf, numberOf } from "../../activity/databases.ts";
import { retentionDays as retention } from "../../activity/retention.ts";
import { leastBusyWriter } from "../../activity/writers.ts";
import { fixedPeriods, inPeriodOrder } from "../../admission/window.ts";
import { etagOfContent, preconditionOf, respondOne } from "../../api/conditional.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, mergePatch, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { pageQuery, time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { requirePrecondition } from "../../db/optimistic-locking.ts";
import { Failure, invalidMember } from "../../errors/failure.ts";
import { accountsWithMembers } from "../../identity/invitations.ts";
import { omitUndefined } from "../../inputs/omit-undefined.ts";
import { timeInput, visibleText } from "../../inputs/values.ts";
import { externalId, limitsInput, metadata, metadataPatch, patched } from "../../keys/schemas.ts";
import {
  changeStorageQuota,
  changeTeamValues,
  makeAccount,
  makeOwnerLink,
  makeTeamAccount,
  readStorage,
  resumeAccount,
  suspendAccount,
} from "../../operations/change-account.ts";
import { changeTerms } from "../../operations/change-terms.ts";
import { type Erasure, eraseSome, readErasure, requestErasure, requireNotErased, timeTravelUntil } from "../../operations/erase-account.ts";
import { exportAccount } from "../../operations/export-account.ts";
import { exportLog } from "../../operations/export-log.ts";
import { recordOperation } from "../../operations/operator-audit.ts";
import { mayActOn } from "../../service-tokens/token.ts";
import { defaultQuotaBytes, storedNames } from "../../storage/storage.ts";
import { iso, isoOrNull, secondMs } from "../../time/clock.ts";
import {
  accountFor,
  requireTokenScope as checkTokenScope,
  idOf,
  type OperatorContext,
  operating,
  readBody,
  readQuery,
  setupUrl,
} from "../context.ts";
import { createTeamRouter, documentOperations, idPath, requireTokenScope, teamBase, teamEmpty, teamJson } from "../team-router.ts";

/** The time that one call spends on an erasure, in milliseconds. The caller repeats the call until the erasure is finished. */
const erasingMs = 20 * secondMs;

const bodyOf = (account: Account): z.infer<typeof AccountData> => ({
  id: account.id,
  external_id: account.externalId,
  name: account.name,
  email: account.email === "" ? null : account.email,
  metadata: account.metadata,
  status: account.suspendedAt === null ? "active" : "suspended",
  on_unavailable: account.onUnavailable,
  plan_id: account.planId,
  limits: account.limitsInForce,
  pending_limits: account.pushedLimitsVersion < account.limitsVersion ? account.sharedLimits : null,
  limit_ceiling: account.limitCeiling,
  max_live_keys: account.maxLiveKeys,
  key_limits: account.keyLimits,
  retention_days: account.retentionDays,
  storage_quota_bytes: account.storageQuotaBytes ?? defaultQuotaBytes,
  activity_database: databaseOf(account.logWriter),
  log_writer: numberOf(account.logWriter),
  suspended_at: isoOrNull(account.suspendedAt),
  created_at: iso(account.createdAt),
});

const reportOf = ({ accountId, erased, requestedAt, finishedAt }: Erasure) => ({
  account_id: accountId,
  status: finishedAt === null ? "erasing" : "erased",
  erased,
  requested_at: iso(requestedAt),
  finished_at: isoOrNull(finishedAt),
  // For Time Travel, Cloudflare keeps copies of the data until this time. Nobody can delete data from these copies.
  time_travel_until: finishedAt === null ? null : iso(timeTravelUntil(finishedAt)),
});

const tags = ["Accounts"];
const limitData = z.strictObject({ per: z.string(), limit: z.int() });
const AccountData = z
  .strictObject({
    id: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    external_id: z.string().nullable().meta({ description: "The id of the account in your own system, or null.", example: "cus_4711" }),
    name: z.string().meta({ description: "The name of the account.", example: "Acme" }),
    email: z.string().nullable().meta({ description: "The email address of the account, or null.", example: "ops@acme.dev" }),
    metadata: z.record(z.string(), z.unknown()).meta({ description: "Your own values.", example: { plan: "pro" } }),
    status: z.enum(["active", "suspended"]).meta({ description: "Whether the account is suspended.", example: "active" }),
    on_unavailable: z
      .enum(["deny", "allow"])
      .meta({ description: "What `verify` does with a request while the guard of its key cannot be reached.", example: "deny" }),
    plan_id: z.string().nullable().meta({ description: "The plan of the account, or null.", example: null }),
    limits: z.array(limitData).meta({
      description: "The limits that the keys share, as the budget and all guards have confirmed them.",
      example: [{ per: "hour", limit: 5000 }],
    }),
    pending_limits: z
      .array(limitData)
      .nullable()
      .meta({ description: "Limits that are stored but not yet in force, or null.", example: null }),
    limit_ceiling: z.int().meta({ description: "The highest limit per hour of a key.", example: 5000 }),
    max_live_keys: z.int().meta({ description: "The maximum number of live keys.", example: 50 }),
    key_limits: z.array(limitData).meta({ description: "The highest limits of a key.", example: [] }),
    retention_days: z
      .int()
      .nullable()
      .meta({ description: "The retention of the request log in days, or null for the default.", example: null }),
    storage_quota_bytes: z.int().meta({ description: "The storage quota in the main database, in bytes.", example: 104857600 }),
    activity_database: z.string().meta({ description: "The database of the request log.", example: "ACTIVITY_0" }),
    log_writer: z.int().meta({ description: "The number of the log writer.", example: 0 }),
    suspended_at: time.nullable().meta({ description: "The time when the account was suspended, or null." }),
    created_at: time.meta({ description: "The time when the account was created." }),
  })
  .openapi("Account", { description: "An account: one customer of your API." });

const nameInput = visibleText(1, 200).meta({ description: "The name of the account.", example: "Acme" });
const emailInput = z.email().max(254).meta({ description: "The email address of the account.", example: "ops@acme.dev" });
const NewAccount = z.strictObject({
  name: nameInput,
  email: emailInput,
  external_id: externalId.nullable().optional(),
  metadata: metadata.optional(),
});
const AccountUpsert = z.strictObject({ name: nameInput, email: emailInput.nullable().optional(), metadata: metadata.optional() });
const AccountPatch = z.strictObject({
  name: nameInput.optional(),
  email: emailInput.nullable().optional(),
  external_id: externalId.nullable().optional(),
  metadata: metadataPatch.optional(),
  on_unavailable: z
    .enum(["deny", "allow"])
    .optional()
    .meta({ description: "What `verify` does while a guard cannot be reached.", example: "allow" }),
  max_live_keys: z.int().min(1).max(1000).optional().meta({ description: "The maximum number of live keys.", example: 1000 }),
  plan_id: z.string().nullable().optional().meta({ description: "The new plan, or null for none.", example: null }),
  limits: limitsInput(fixedPeriods)
    .optional()
    .meta({ description: "Own limits in place of single limits of the plan. An empty list leaves those of the plan.", example: [] }),
  retention_days: z
    .int()
    .min(retention.min)
    .max(retention.max)
    .nullable()
    .optional()
    .meta({ description: "The retention of the request log in days. With `null`, the default applies.", example: null }),
});
const ChangedAccount = z.strictObject({
  ...AccountData.shape,
  lowered: z
    .array(z.string())
    .meta({ description: "The keys whose limits were lowered, because the account now allows less.", example: [] }),
});

const Ceiling = z.strictObject({
  limit: z.int().min(1).max(999_999_999).meta({ description: "The highest limit per hour of a key.", example: 5000 }),
});
const RetentionDays = z.strictObject({
  days: z.int().min(retention.min).max(retention.max).nullable().meta({ description: "The retention in days.", example: 31 }),
});
const StorageQuota = z.strictObject({
  bytes: z.int().min(0).max(fullBytes.main).nullable().meta({ description: "The quota in bytes.", example: 104857600 }),
});
const Erase = z.strictObject({
  confirm: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
});

/** The members of a change that need the scope `operate`. */
const ofOperate = ["on_unavailable", "plan_id", "max_live_keys"] as const;

const etagOf = (account: Account) => etagOfContent(bodyOf(account));
const createdHeaders = (account: Account) => ({ Location: `${teamBase}/accounts/${account.id}`, ETag: etagOf(account) });
const requireMatch = (c: OperatorContext, account: Account) => {
  const tag = etagOf(account);
  requirePrecondition({ revision: tag.slice(1, -1) }, preconditionOf(c as never), "account");
};

export const routes = createTeamRouter();

const list = createRoute({
  method: "get",
  path: "/accounts",
  operationId: "listAccounts",
  summary: "List accounts",
  description: "Lists the accounts, oldest first.",
  tags,
  ...requireTokenScope("accounts:read"),
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
    ),
  },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, external_id: external, email, q } = c.req.valid("query");
  const db = connect(c.env.DB);
  const after = positionAt(c as never, cursor, z.string());
  const filter = { externalId: external, email, q, ids: c.get("token").accountIds };
  const page = await accountsAfter(db, after ?? "", limit + 1, filter);
  const shown = page.slice(0, limit);
  const claimed = await accountsWithMembers(
    db,
    shown.map(({ id }) => id),
  );
  const data = shown.map((account) => ({ ...bodyOf(account), is_claimed: claimed.has(account.id) }));
  return respondPage(c as never, data, page.length > limit ? (shown.at(-1)?.id ?? null) : null) as never;
});

const create = createRoute({
  method: "post",
  path: "/accounts",
  operationId: "createAccount",
  summary: "Create an account",
  description:
    "Creates an account. The response contains a setup link for its first owner. If nobody of the customer uses the overview, ignore the link.",
  tags,
  ...requireTokenScope("accounts:write"),
  ...withIdempotencyKey,
  ...failsWith("conflict"),
  request: { body: body(NewAccount) },
  responses: {
    201: teamJson(
      z.strictObject({
        ...AccountData.shape,
        setup_url: z.string().meta({ description: "The setup link for the first owner.", example: "https://overview.acme.dev/setup#x" }),
      }),
      "The new account.",
    ),
  },
});

routes.openapi(create, async (c) => {
  if (c.get("token").accountIds !== null) throw boundToken();
  const { name, email, external_id: external, metadata: values } = c.req.valid("json");
  // If `PUBLIC_ORIGIN` is not set, this call throws before anything is created.
  setupUrl(c, "");
  const input = omitUndefined({ name, email, externalId: external, metadata: values });
  const { account, setupToken } = await makeAccount(operating(c), { ...input, name, email, logWriter: await leastBusyWriter(c.env) });
  return respondJson(c, { ...bodyOf(account), setup_url: setupUrl(c, setupToken) }, 201, createdHeaders(account));
});

/** Throws if a change names a plan that does not exist, or the external id of another account. The change then changes nothing. */
async function requireKnown(
  c: OperatorContext,
  { id, planId, external }: { id: string; planId: string | null | undefined; external: string | null | undefined },
): Promise<void> {
  const db = connect(c.env.DB);
  if (planId && (await planOf(db, { planId })) === null) throw invalidMember("/plan_id", "There is no such plan.", "invalid_value");
  const other = external ? await readAccountByExternalId(db, external) : null;
  if (other && other.id !== id) throw new Failure("conflict", "Another account has this external id.");
}

const boundToken = () => new Failure("forbidden", "A service token that is bound to accounts cannot create accounts.");

const upsert = createRoute({
  method: "put",
  path: "/accounts/by-external-id/{external_id}",
  operationId: "putAccountByExternalId",
  summary: "Create or update an account by its external id",
  description:
    "Creates the account with this external id, or updates its name, its email address and its metadata. Members that are absent stay as they are. Sending the same request again changes nothing.",
  tags,
  ...requireTokenScope("accounts:write"),
  ...failsWith("conflict"),
  request: {
    params: z.object({
      external_id: externalId.meta({
        param: { name: "external_id", in: "path", description: "The id of the account in your own system." },
        example: "cus_4711",
      }),
    }),
    body: body(AccountUpsert),
  },
  responses: { 200: teamJson(AccountData, "The updated account."), 201: teamJson(AccountData, "The new account.") },
});

routes.openapi(upsert, async (c) => {
  const { name, email, metadata: values } = c.req.valid("json");
  const { external_id: external } = c.req.valid("param");
  const given = omitUndefined({ name, email: email === null ? "" : email, metadata: values });
  const found = await readAccountByExternalId(connect(c.env.DB), external);
  if (found && mayActOn(c.get("token"), found.id)) {
    await changeTeamValues(operating(c), found.id, given);
    const account = await readAccount(connect(c.env.DB), found.id);
    return respondJson(c, bodyOf(account), 200, { ETag: etagOf(account) });
  }
  if (c.get("token").accountIds !== null) throw boundToken();
  const account = await makeTeamAccount(operating(c), {
    ...given,
    email: email ?? "",
    name,
    externalId: external,
    logWriter: await leastBusyWriter(c.env),
  });
  return respondJson(c, bodyOf(account), 201, createdHeaders(account));
});

const read = createRoute({
  method: "get",
  path: "/accounts/{id}",
  operationId: "getAccount",
  summary: "Get an account",
  description: "Returns one account.",
  tags,
  ...requireTokenScope("accounts:read"),
  ...withConditions,
  request: { params: idPath("acc_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: teamJson(AccountData, "The account."), 304: teamEmpty("The client already has this version.") },
});

routes.openapi(read, async (c) => {
  const account = await accountFor(c, c.req.valid("param").id);
  return respondOne(c as never, bodyOf(account), etagOf(account)) as never;
});

const change = createRoute({
  method: "patch",
  path: "/accounts/{id}",
  operationId: "updateAccount",
  summary: "Change an account",
  description:
    "Changes an account. When the response is sent, the new limits and values are in force for all of its keys. `plan_id`, `max_live_keys` and `on_unavailable` need the scope `operate`.",
  tags,
  ...requireTokenScope("accounts:write"),
  ...failsWith("conflict"),
  ...withConditions,
  request: { params: idPath("acc_019a1b2c3d4e7f8091a2b3c4d5e6f708"), body: mergePatch(AccountPatch) },
  responses: { 200: teamJson(ChangedAccount, "The account after the change.") },
});

routes.openapi(change, async (c) => {
  const {
    name,
    email,
    external_id: external,
    metadata: values,
    on_unavailable: onUnavailable,
    max_live_keys: maxKeys,
    ...terms
  } = c.req.valid("json");
  if (ofOperate.some((member) => c.req.valid("json")[member] !== undefined)) checkTokenScope(c, "operate");
  const { id } = c.req.valid("param");
  const before = await accountFor(c, id);
  requireMatch(c, before);
  await requireNotErased(connect(c.env.DB), id);
  await requireKnown(c, { id, planId: terms.plan_id, external });
  const given = omitUndefined({
    name,
    email: email === null ? "" : email,
    externalId: external,
    metadata: patched(before.metadata, values),
    onUnavailable,
    maxLiveKeys: maxKeys,
  });
  await changeTeamValues(operating(c), id, given);
  const { plan_id: planId, limits, retention_days: days } = terms;
  const patch = omitUndefined({ planId, limits: limits && inPeriodOrder(limits), retentionDays: days });
  const lowered = await changeTerms(operating(c), id, patch);
  const account = await readAccount(connect(c.env.DB), id);
  return respondJson(c, { ...bodyOf(account), lowered }, 200, { ETag: etagOf(account) });
});

routes.post("/accounts/:id/suspend", async (c) => c.json({ keys: await suspendAccount(operating(c), idOf(c)) }));

routes.post("/accounts/:id/resume", async (c) => {
  await requireNotErased(connect(c.env.DB), idOf(c));
  return c.json({ keys: await resumeAccount(operating(c), idOf(c)) });
});

routes.put("/accounts/:id/ceiling", async (c) => {
  const { limit } = await readBody(c, Ceiling);
  return c.json({ lowered: await changeTerms(operating(c), idOf(c), { limitCeiling: limit }) });
});

routes.put("/accounts/:id/retention-days", async (c) => {
  const { days } = await readBody(c, RetentionDays);
  await changeTerms(operating(c), idOf(c), { retentionDays: days });
  return c.json({ retention_days: (await readAccount(connect(c.env.DB), idOf(c))).retentionDays });
});

routes.get("/accounts/:id/storage", async (c) => {
  const { bytes, rows, droppedEvents } = await readStorage(connect(c.env.DB), idOf(c));
  const byLabel = Object.fromEntries(storedNames.map(({ key, label }) => [label, rows[key]]));
  return c.json({ bytes, ...byLabel, dropped_events: droppedEvents });
});

routes.put("/accounts/:id/storage-quota", async (c) => {
  const { bytes } = await readBody(c, StorageQuota);
  await changeStorageQuota(operating(c), idOf(c), bytes);
  return c.json({ storage_quota_bytes: bytes ?? defaultQuotaBytes });
});

routes.post("/accounts/:id/owners", async (c) => {
  await requireNotErased(connect(c.env.DB), idOf(c));
  return c.json({ setup_url: setupUrl(c, await makeOwnerLink(operating(c), idOf(c))) }, 201);
});

const AfterQuery = z.strictObject({
  after: z.string().optional().meta({ description: "The cursor of the next page, from the header `X-Next`." }),
});

/** Exports an account in pages. Each line of a page is a JSON object. The response header `X-Next` contains the cursor of the next page. */
routes.get("/accounts/:id/export", async (c) => {
  const { db, now, operator } = operating(c);
  const { after = "" } = readQuery(c, AfterQuery);
  await readAccount(db, idOf(c));
  // Each page of the export gets an entry in the operator audit, because a caller can start the export at any cursor.
  await recordOperation(db, { now, operator, action: "account.exported", accountId: idOf(c), details: { continued: after !== "" } });
  const { lines, next } = await exportAccount({ db, env: c.env }, idOf(c), after);
  const ndjson = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  return c.body(ndjson, 200, { "Content-Type": "application/x-ndjson", ...(next !== null && { "X-Next": encodeURIComponent(next) }) });
});

const LogSpan = z.strictObject({
  from: timeInput.optional(),
  to: timeInput.optional(),
  after: z
    .string()
    .regex(/^req_[0-9a-f]{12,32}~?$/)
    .optional(),
});

/**
 * Exports the requests of an account in pages, newest first. Each line of a page is a JSON object. The response header `X-Next` contains the cursor of
 * the next page. `from` and `to` limit the time of the requests.
 */
routes.get("/accounts/:id/log", async (c) => {
  const { db, now, operator } = operating(c);
  const { from, to, after } = readQuery(c, LogSpan);
  const account = await readAccount(db, idOf(c));
  const details = { continued: after !== undefined, from: isoOrNull(from ?? null), to: isoOrNull(to ?? null) };
  await recordOperation(db, { now, operator, action: "account.log_exported", accountId: account.id, details });
  const { lines, next } = await exportLog({ db, env: c.env }, account, { from, to, after });
  const ndjson = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  return c.body(ndjson, 200, { "Content-Type": "application/x-ndjson", ...(next !== null && { "X-Next": encodeURIComponent(next) }) });
});

routes.post("/accounts/:id/erase", async (c) => {
  const { confirm } = await readBody(c, Erase);
  if (confirm !== idOf(c)) throw new Failure("conflict", "To erase an account, `confirm` must be its id.");
  await requestErasure(operating(c), idOf(c));
  const { db, guards, budgets, env } = operating(c);
  return c.json(reportOf(await eraseSome({ db, guards, budgets, env }, idOf(c), Date.now() + erasingMs)));
});

routes.get("/accounts/:id/erasure", async (c) => c.json(reportOf(await readErasure(connect(c.env.DB), idOf(c)))));

documentOperations(routes, "Accounts", {
  "POST /accounts/{id}/suspend": {
    operationId: "suspendAccount",
    summary: "Suspend an account",
    description:
      "Denies requests with the account's keys, holds its deliveries, and lets its members only read. It is in force when the response is sent.",
  },
  "POST /accounts/{id}/resume": { operationId: "resumeAccount", summary: "Resume an account", description: "Ends a suspension." },
  "PUT /accounts/{id}/ceiling": {
    operationId: "setCeiling",
    summary: "Set the ceiling of an account",
    description: "Sets the highest limit per hour of the account's keys, and lowers the keys above it.",
    body: Ceiling,
  },
  "PUT /accounts/{id}/retention-days": {
    operationId: "setRetentionDays",
    summary: "Set the retention of an account's log",
    description: "Sets the retention of the request log in days. With `null`, the default applies.",
    body: RetentionDays,
  },
  "GET /accounts/{id}/storage": {
    operationId: "getStorage",
    summary: "Get the storage of an account",
    description: "Returns how much the account stores in the main database, and its limits.",
  },
  "PUT /accounts/{id}/storage-quota": {
    operationId: "setStorageQuota",
    summary: "Set the storage quota of an account",
    description: "Sets how many bytes the account may store in the main database. With `null`, the default applies.",
    body: StorageQuota,
  },
  "POST /accounts/{id}/owners": {
    operationId: "createOwnerLink",
    summary: "Create a setup link for another owner",
    description: "Creates a setup link for an owner. An earlier link that is unused stops working.",
  },
  "GET /accounts/{id}/export": {
    operationId: "exportAccount",
    summary: "Export an account",
    description: "Returns a page of the account's data, one JSON object per line. The header `X-Next` has the cursor of the next page.",
    query: AfterQuery,
  },
  "GET /accounts/{id}/log": {
    operationId: "exportLog",
    summary: "Export the requests of an account",
    description:
      "Returns a page of the request log, newest first, one JSON object per line. The header `X-Next` has the cursor of the next page.",
    query: z.strictObject({
      from: z.string().optional().meta({ description: "The earliest time of the requests.", example: "2026-01-31T00:00:00Z" }),
      to: z.string().optional().meta({ description: "The time before which the requests were made.", example: "2026-02-01T00:00:00Z" }),
      ...AfterQuery.shape,
    }),
  },
  "POST /accounts/{id}/erase": {
    operationId: "eraseAccount",
    summary: "Erase an account",
    description: "Permanently deletes the account and all its data. Repeat the call until `status` is `erased`.",
    body: Erase,
  },
  "GET /accounts/{id}/erasure": {
    operationId: "getErasure",
    summary: "Get the state of an erasure",
    description: "Returns what was erased so far.",
  },
});
