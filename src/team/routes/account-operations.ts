import { createRoute, z } from "@hono/zod-openapi";
import { readAccount } from "../../accounts/account.ts";
import { defaultQuotaBytes, maxStored, storedNames } from "../../accounts/storage.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, get, post, put, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { respond } from "../../http/standard-headers.ts";
import { recordOperation } from "../../identity/audit/operator-audit.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { timeInQuery } from "../../lib/inputs/values.ts";
import { iso, isoOrNull, secondMs } from "../../lib/time/clock.ts";
import { linesOf } from "../../lib/time/turns.ts";
import { changeStorageQuota, makeOwnerLink, readStorage, resumeAccount, suspendAccount } from "../../lifecycle/accounts.ts";
import { type Erasure, eraseSome, readErasure, requestErasure, requireNotErased, timeTravelUntil } from "../../lifecycle/erase-account.ts";
import { exportAccount } from "../../lifecycle/export-account.ts";
import { exportLog } from "../../lifecycle/export-log.ts";
import { operatorContext, setupUrl, type TeamContext } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { accountPath, createTeamRouter, requireTokenScope, sharesCpuOfAccount, teamJson, teamLines, teamPostJson } from "../team-router.ts";
import { scopeOf } from "../tokens/token.ts";
import { setupUrlData } from "./accounts.ts";

// Operations on accounts that need the scope `operate`.

/** The time that one call spends on an erasure, in milliseconds. The caller repeats the call until the erasure is finished. */
const erasingMs = 20 * secondMs;

export const routes = createTeamRouter();

const tags = ["Accounts"];
/** The shared parts of the routes in this file. */
const operation = { tags, ...requireTokenScope(scopeOf.accountTerms, "path") };

const keys = z.int().meta({ description: "The number of keys that the change reached.", example: 3 });
const Reached = z.strictObject({ keys });

const suspend = createRoute({
  ...post("/accounts/{id}/suspend", "suspendAccount", "Suspend an account"),
  description:
    "Denies requests with the account's keys, holds its deliveries, and lets its members only read. It is in force when the response is sent.",
  ...operation,
  request: { params: accountPath },
  responses: { 200: teamJson(Reached, "The account is suspended.") },
});

routes.openapi(suspend, async (c) => respondJson(c, { keys: await suspendAccount(operatorContext(c), c.req.valid("param").id) }, 200));

const resume = createRoute({
  ...post("/accounts/{id}/resume", "resumeAccount", "Resume an account"),
  description: "Ends a suspension. It is in force when the response is sent.",
  ...operation,
  ...failsWith("conflict"),
  request: { params: accountPath },
  responses: { 200: teamJson(Reached, "The account is active.") },
});

routes.openapi(resume, async (c) => {
  const { id } = c.req.valid("param");
  await requireNotErased(connect(c.env.DB), id);
  return respondJson(c, { keys: await resumeAccount(operatorContext(c), id) }, 200);
});

const stored = (what: string, most: number) =>
  z.strictObject({
    stored: z.int().meta({ description: `The stored ${what}.`, example: 12 }),
    most: z.int().meta({ description: `The maximum of stored ${what}.`, example: most }),
  });

const getStorage = createRoute({
  ...get("/accounts/{id}/storage", "getStorage", "Get the storage of an account"),
  description: "Returns how much the account stores in the main database, and its limits.",
  ...operation,
  request: { params: accountPath },
  responses: {
    200: teamJson(
      z.strictObject({
        bytes: stored("bytes", defaultQuotaBytes),
        ...Object.fromEntries(storedNames.map(({ key, label }) => [label, stored(label, maxStored[key])])),
        dropped_events: z.int().meta({ description: "The events that were dropped because the storage was full.", example: 0 }),
      }),
      "The storage.",
    ),
  },
});

routes.openapi(getStorage, async (c) => {
  const { bytes, rows, droppedEvents } = await readStorage(connect(c.env.DB), c.req.valid("param").id);
  const byLabel = Object.fromEntries(storedNames.map(({ key, label }) => [label, rows[key]]));
  return respondJson(c, { bytes, ...byLabel, dropped_events: droppedEvents }, 200);
});

const setStorageQuota = createRoute({
  ...put("/accounts/{id}/storage-quota", "setStorageQuota", "Set the storage quota of an account"),
  description: "Sets how many bytes the account may store in the main database. With `null`, the default applies.",
  ...operation,
  request: {
    params: accountPath,
    body: body(
      z.strictObject({
        bytes: z.int().min(0).max(fullBytes.main).nullable().meta({ description: "The quota in bytes.", example: defaultQuotaBytes }),
      }),
    ),
  },
  responses: {
    200: teamJson(
      z.strictObject({ storage_quota_bytes: z.int().meta({ description: "The quota in bytes.", example: defaultQuotaBytes }) }),
      "The quota.",
    ),
  },
});

routes.openapi(setStorageQuota, async (c) => {
  const { bytes } = c.req.valid("json");
  await changeStorageQuota(operatorContext(c), c.req.valid("param").id, bytes);
  return respondJson(c, { storage_quota_bytes: bytes ?? defaultQuotaBytes }, 200);
});

const createOwnerLink = createRoute({
  ...post("/accounts/{id}/owners", "createOwnerLink", "Create a setup link for another owner"),
  description: "Creates a setup link for an owner. An earlier link that is unused stops working.",
  ...operation,
  ...withIdempotencyKey,
  ...failsWith("conflict"),
  request: { params: accountPath },
  responses: { 201: teamPostJson(z.strictObject({ setup_url: setupUrlData }), "The setup link.") },
});

routes.openapi(createOwnerLink, async (c) => {
  const { id } = c.req.valid("param");
  await requireNotErased(connect(c.env.DB), id);
  return runTeamPost(
    c,
    (context) => makeOwnerLink(context, id),
    (token) => ({ status: 201, body: { setup_url: setupUrl(c, token) as string | null }, stored: { setup_url: null } }),
  );
});

/** Responds with one page of an export. The response header `X-Next` contains the cursor of the next page. */
async function respondLines(c: TeamContext, { lines, next }: { lines: readonly object[]; next: string | null }): Promise<Response> {
  const ndjson = await linesOf(lines, (line) => `${JSON.stringify(line)}\n`);
  return respond(c, ndjson, 200, {
    "Content-Type": "application/x-ndjson",
    ...(next !== null && { "X-Next": encodeURIComponent(next) }),
  });
}

const afterDescription = "The cursor of the next page, from the header `X-Next`.";

const readExport = createRoute({
  ...get("/accounts/{id}/export", "exportAccount", "Export an account"),
  description: "Returns a page of the account's data, one JSON object per line. The header `X-Next` has the cursor of the next page.",
  ...operation,
  ...sharesCpuOfAccount,
  ...failsWith("invalid_cursor"),
  request: {
    params: accountPath,
    query: z.strictObject({ after: z.string().optional().meta({ description: afterDescription }) }),
  },
  responses: teamLines,
});

routes.openapi(readExport, async (c) => {
  const { id } = c.req.valid("param");
  const { after = "" } = c.req.valid("query");
  const context = operatorContext(c);
  const { db } = context;
  await readAccount(db, id);
  // Each page of the export gets an entry in the operator audit, because a caller can start the export at any cursor.
  await recordOperation(context, { action: "account.exported", accountId: id, details: { continued: after !== "" } });
  return respondLines(c, await exportAccount({ db, env: c.env }, id, after));
});

const readLog = createRoute({
  ...get("/accounts/{id}/log", "exportLog", "Export the requests of an account"),
  description:
    "Returns a page of the request log, newest first, one JSON object per line. The header `X-Next` has the cursor of the next page.",
  ...operation,
  ...sharesCpuOfAccount,
  request: {
    params: accountPath,
    query: z.strictObject({
      from: timeInQuery.optional().meta({ description: "The earliest time of the requests.", example: "2026-01-31T00:00:00Z" }),
      to: timeInQuery.optional().meta({ description: "The time before which the requests were made.", example: "2026-02-01T00:00:00Z" }),
      after: z
        .string()
        .regex(/^req_[0-9a-f]{12,32}~?$/)
        .optional()
        .meta({ description: afterDescription }),
    }),
  },
  responses: teamLines,
});

routes.openapi(readLog, async (c) => {
  const context = operatorContext(c);
  const { db } = context;
  const { from, to, after } = c.req.valid("query");
  const account = await readAccount(db, c.req.valid("param").id);
  const details = { continued: after !== undefined, from: isoOrNull(from ?? null), to: isoOrNull(to ?? null) };
  await recordOperation(context, { action: "account.log_exported", accountId: account.id, details });
  return respondLines(c, await exportLog({ db, env: c.env }, account, { from, to, after }));
});

const ErasureReport = z.strictObject({
  account_id: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  status: z.enum(["erasing", "erased"]).meta({ description: "Whether the erasure is finished.", example: "erased" }),
  erased: z
    .record(z.string(), z.int())
    .meta({ description: "How many rows of each kind were erased so far.", example: { keys: 3, webhooks: 1 } }),
  requested_at: time.meta({ description: "The time when the erasure was requested." }),
  finished_at: time.nullable().meta({ description: "The time when the erasure finished, or null." }),
  time_travel_until: time.nullable().meta({
    description: "For Time Travel, Cloudflare keeps copies of the data until this time. Nobody can delete data from these copies.",
  }),
});

const reportOf = ({ accountId, erased, requestedAt, finishedAt }: Erasure): z.infer<typeof ErasureReport> => ({
  account_id: accountId,
  status: finishedAt === null ? "erasing" : "erased",
  erased,
  requested_at: iso(requestedAt),
  finished_at: isoOrNull(finishedAt),
  time_travel_until: finishedAt === null ? null : iso(timeTravelUntil(finishedAt)),
});

const erase = createRoute({
  ...post("/accounts/{id}/erase", "eraseAccount", "Erase an account"),
  description: "Permanently deletes the account and all its data. Repeat the call until `status` is `erased`.",
  ...operation,
  ...failsWith("conflict"),
  request: {
    params: accountPath,
    body: body(
      z.strictObject({
        confirm: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
      }),
    ),
  },
  responses: { 200: teamJson(ErasureReport, "What was erased so far.") },
});

routes.openapi(erase, async (c) => {
  const { id } = c.req.valid("param");
  if (c.req.valid("json").confirm !== id) throw new Failure("conflict", "To erase an account, `confirm` must be its id.");
  const context = operatorContext(c);
  await requestErasure(context, id);
  return respondJson(c, reportOf(await eraseSome(context, id, Date.now() + erasingMs)), 200);
});

const getErasure = createRoute({
  ...get("/accounts/{id}/erasure", "getErasure", "Get the state of an erasure"),
  description: "Returns what was erased so far.",
  ...operation,
  request: { params: accountPath },
  responses: { 200: teamJson(ErasureReport, "What was erased so far.") },
});

routes.openapi(getErasure, async (c) => respondJson(c, reportOf(await readErasure(connect(c.env.DB), c.req.valid("param").id)), 200));
