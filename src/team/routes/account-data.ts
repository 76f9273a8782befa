import { createRoute, z } from "@hono/zod-openapi";
import { readAccount } from "../../accounts/account.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, get, post } from "../../api/route-parts/requests.ts";
import { time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { respond } from "../../http/standard-headers.ts";
import { recordOperation } from "../../identity/audit/operator-audit.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { timeInQuery } from "../../lib/inputs/values.ts";
import { iso, isoOrNull, secondMs } from "../../lib/time/clock.ts";
import { linesOf } from "../../lib/time/turns.ts";
import { type Erasure, eraseSome, readErasure, requestErasure, timeTravelUntil } from "../../lifecycle/erase-account.ts";
import { exportAccount } from "../../lifecycle/export-account.ts";
import { exportLog } from "../../lifecycle/export-log.ts";
import { operatorContext, type TeamContext } from "../context.ts";
import { accountPath, createTeamRouter, requireTokenScope, sharesCpuOfAccount, teamJson, teamLines } from "../team-router.ts";
import { scopeOf } from "../tokens/token.ts";

// The export and the erasure of an account.

/** The time that one call spends on an erasure, in milliseconds. The caller repeats the call until the erasure is finished. */
const erasingMs = 20 * secondMs;

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const operation = { tags: ["Accounts"], ...requireTokenScope(scopeOf.accountTerms, "path"), request: { params: accountPath } };

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
  description: "Returns what has been erased so far.",
  ...operation,
  responses: { 200: teamJson(ErasureReport, "What was erased so far.") },
});

routes.openapi(getErasure, async (c) => respondJson(c, reportOf(await readErasure(connect(c.env.DB), c.req.valid("param").id)), 200));
