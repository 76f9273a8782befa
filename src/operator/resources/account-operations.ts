import { z } from "@hono/zod-openapi";
import { readAccount } from "../../accounts/account.ts";
import { retentionDays as retention } from "../../activity/retention.ts";
import { connect } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { Failure } from "../../errors/failure.ts";
import { timeInput } from "../../inputs/values.ts";
import { changeStorageQuota, makeOwnerLink, readStorage, resumeAccount, suspendAccount } from "../../operations/accounts.ts";
import { changeAccount } from "../../operations/change-account.ts";
import { type Erasure, eraseSome, readErasure, requestErasure, requireNotErased, timeTravelUntil } from "../../operations/erase-account.ts";
import { exportAccount } from "../../operations/export-account.ts";
import { exportLog } from "../../operations/export-log.ts";
import { recordOperation } from "../../operations/operator-audit.ts";
import { defaultQuotaBytes, storedNames } from "../../storage/storage.ts";
import { iso, isoOrNull, secondMs } from "../../time/clock.ts";
import { idOf, operating, readBody, readQuery, setupUrl } from "../context.ts";
import { createTeamRouter, documentOperations } from "../team-router.ts";

// Operations on accounts that need the scope `operate`.

/** The time that one call spends on an erasure, in milliseconds. The caller repeats the call until the erasure is finished. */
const erasingMs = 20 * secondMs;

const reportOf = ({ accountId, erased, requestedAt, finishedAt }: Erasure) => ({
  account_id: accountId,
  status: finishedAt === null ? "erasing" : "erased",
  erased,
  requested_at: iso(requestedAt),
  finished_at: isoOrNull(finishedAt),
  // For Time Travel, Cloudflare keeps copies of the data until this time. Nobody can delete data from these copies.
  time_travel_until: finishedAt === null ? null : iso(timeTravelUntil(finishedAt)),
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

export const routes = createTeamRouter();

routes.post("/accounts/:id/suspend", async (c) => c.json({ keys: await suspendAccount(operating(c), idOf(c)) }));

routes.post("/accounts/:id/resume", async (c) => {
  await requireNotErased(connect(c.env.DB), idOf(c));
  return c.json({ keys: await resumeAccount(operating(c), idOf(c)) });
});

routes.put("/accounts/:id/ceiling", async (c) => {
  const { limit } = await readBody(c, Ceiling);
  return c.json({ lowered: await changeAccount(operating(c), idOf(c), () => ({ limitCeiling: limit })) });
});

routes.put("/accounts/:id/retention-days", async (c) => {
  const { days } = await readBody(c, RetentionDays);
  await changeAccount(operating(c), idOf(c), () => ({ retentionDays: days }));
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
    status: 201,
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
