import { Hono } from "hono";
import { z } from "zod";
import { type Account, accountsAfter, readAccount } from "../../accounts/account.ts";
import { databaseOf, numberOf } from "../../activity/databases.ts";
import { retentionDays as retention } from "../../activity/retention.ts";
import { leastBusyWriter } from "../../activity/writers.ts";
import { fixedPeriods, inPeriodOrder } from "../../admission/window.ts";
import { connect } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { Failure } from "../../errors/failure.ts";
import { accountsWithMembers } from "../../identity/invitations.ts";
import { omitUndefined } from "../../inputs/omit-undefined.ts";
import { timeInput, visibleText } from "../../inputs/values.ts";
import { limitsInput } from "../../keys/schemas.ts";
import {
  changeStorageQuota,
  makeAccount,
  makeOwnerLink,
  readStorage,
  resumeAccount,
  suspendAccount,
} from "../../operations/change-account.ts";
import { changeTerms } from "../../operations/change-terms.ts";
import { type Erasure, eraseSome, readErasure, requestErasure, requireNotErased, timeTravelUntil } from "../../operations/erase-account.ts";
import { exportAccount } from "../../operations/export-account.ts";
import { exportLog } from "../../operations/export-log.ts";
import { recordOperation } from "../../operations/operator-audit.ts";
import { defaultQuotaBytes, storedNames } from "../../storage/storage.ts";
import { iso, isoOrNull, secondMs } from "../../time/clock.ts";
import { idOf, type OperatorEnv, operating, readBody, readQuery, setupUrl } from "../context.ts";

const maxOfPage = 100;
/** The time that one call spends on an erasure, in milliseconds. The caller repeats the call until the erasure is finished. */
const erasingMs = 20 * secondMs;

const bodyOf = (account: Account) => ({
  id: account.id,
  name: account.name,
  email: account.email,
  status: account.suspendedAt === null ? "active" : "suspended",
  plan_id: account.planId,
  // The limits that the keys share, as the budget and all guards have confirmed them.
  limits: account.limitsInForce,
  // Limits that are stored but not yet in force, or null.
  pending_limits: account.pushedLimitsVersion < account.limitsVersion ? account.sharedLimits : null,
  limit_ceiling: account.limitCeiling,
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

const NewAccount = z.strictObject({ name: visibleText(1, 200), email: z.email().max(254) });

export const accounts = new Hono<OperatorEnv>();

accounts.get("/accounts", async (c) => {
  const db = connect(c.env.DB);
  const page = await accountsAfter(db, c.req.query("after") ?? "", maxOfPage + 1);
  const shown = page.slice(0, maxOfPage);
  const claimed = await accountsWithMembers(
    db,
    shown.map(({ id }) => id),
  );
  return c.json({
    data: shown.map((account) => ({ ...bodyOf(account), is_claimed: claimed.has(account.id) })),
    next: page.length > maxOfPage ? (shown.at(-1)?.id ?? null) : null,
  });
});

accounts.post("/accounts", async (c) => {
  const { name, email } = await readBody(c, NewAccount);
  // If `PUBLIC_ORIGIN` is not set, this call throws before anything is created.
  setupUrl(c, "");
  const { account, setupToken } = await makeAccount(operating(c), { name, email, logWriter: await leastBusyWriter(c.env) });
  return c.json({ ...bodyOf(account), setup_url: setupUrl(c, setupToken) }, 201);
});

accounts.get("/accounts/:id", async (c) => c.json(bodyOf(await readAccount(connect(c.env.DB), idOf(c)))));

accounts.post("/accounts/:id/suspend", async (c) => c.json({ keys: await suspendAccount(operating(c), idOf(c)) }));

accounts.post("/accounts/:id/resume", async (c) => {
  await requireNotErased(connect(c.env.DB), idOf(c));
  return c.json({ keys: await resumeAccount(operating(c), idOf(c)) });
});

const AccountPatch = z.strictObject({ plan_id: z.string().nullable().optional(), limits: limitsInput(fixedPeriods).optional() });

/**
 * Changes the plan of an account, or the limits that its keys share. `limits` replaces single limits of the plan; an empty list leaves those of the plan. When
 * the response is sent, the limits are in force.
 */
accounts.patch("/accounts/:id", async (c) => {
  const { plan_id: planId, limits } = await readBody(c, AccountPatch);
  await requireNotErased(connect(c.env.DB), idOf(c));
  const lowered = await changeTerms(operating(c), idOf(c), omitUndefined({ planId, limits: limits && inPeriodOrder(limits) }));
  return c.json({ ...bodyOf(await readAccount(connect(c.env.DB), idOf(c))), lowered });
});

accounts.put("/accounts/:id/ceiling", async (c) => {
  const { limit } = await readBody(c, z.strictObject({ limit: z.int().min(1).max(999_999_999) }));
  return c.json({ lowered: await changeTerms(operating(c), idOf(c), { limitCeiling: limit }) });
});

accounts.put("/accounts/:id/retention-days", async (c) => {
  const { days } = await readBody(c, z.strictObject({ days: z.int().min(retention.min).max(retention.max).nullable() }));
  await changeTerms(operating(c), idOf(c), { retentionDays: days });
  return c.json({ retention_days: (await readAccount(connect(c.env.DB), idOf(c))).retentionDays });
});

accounts.get("/accounts/:id/storage", async (c) => {
  const { bytes, rows, droppedEvents } = await readStorage(connect(c.env.DB), idOf(c));
  const byLabel = Object.fromEntries(storedNames.map(({ key, label }) => [label, rows[key]]));
  return c.json({ bytes, ...byLabel, dropped_events: droppedEvents });
});

accounts.put("/accounts/:id/storage-quota", async (c) => {
  const { bytes } = await readBody(c, z.strictObject({ bytes: z.int().min(0).max(fullBytes.main).nullable() }));
  await changeStorageQuota(operating(c), idOf(c), bytes);
  return c.json({ storage_quota_bytes: bytes ?? defaultQuotaBytes });
});

accounts.post("/accounts/:id/owners", async (c) => {
  await requireNotErased(connect(c.env.DB), idOf(c));
  return c.json({ setup_url: setupUrl(c, await makeOwnerLink(operating(c), idOf(c))) }, 201);
});

/** Exports an account in pages. Each line of a page is a JSON object. The response header `X-Next` contains the cursor of the next page. */
accounts.get("/accounts/:id/export", async (c) => {
  const { db, now, operator } = operating(c);
  const after = c.req.query("after") ?? "";
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
accounts.get("/accounts/:id/log", async (c) => {
  const { db, now, operator } = operating(c);
  const { from, to, after } = readQuery(c, LogSpan);
  const account = await readAccount(db, idOf(c));
  const details = { continued: after !== undefined, from: isoOrNull(from ?? null), to: isoOrNull(to ?? null) };
  await recordOperation(db, { now, operator, action: "account.log_exported", accountId: account.id, details });
  const { lines, next } = await exportLog({ db, env: c.env }, account, { from, to, after });
  const ndjson = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  return c.body(ndjson, 200, { "Content-Type": "application/x-ndjson", ...(next !== null && { "X-Next": encodeURIComponent(next) }) });
});

accounts.post("/accounts/:id/erase", async (c) => {
  const { confirm } = await readBody(c, z.strictObject({ confirm: z.string() }));
  if (confirm !== idOf(c)) throw new Failure("conflict", "To erase an account, `confirm` must be its id.");
  await requestErasure(operating(c), idOf(c));
  const { db, guards, budgets, env } = operating(c);
  return c.json(reportOf(await eraseSome({ db, guards, budgets, env }, idOf(c), Date.now() + erasingMs)));
});

accounts.get("/accounts/:id/erasure", async (c) => c.json(reportOf(await readErasure(connect(c.env.DB), idOf(c)))));
