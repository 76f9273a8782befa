import { createRoute, z } from "@hono/zod-openapi";
import { defaultQuotaBytes, maxStored, storedNames } from "../../accounts/storage.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, get, optionalBody, post, put, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { connect } from "../../db/client.ts";
import { fullBytes } from "../../db/database-sizes.ts";
import { visibleText } from "../../lib/inputs/values.ts";
import { changeStorageQuota, makeOwnerLink, readStorage, resumeAccount, suspendAccount } from "../../lifecycle/accounts.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { operatorContext, setupUrl } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { accountPath, createTeamRouter, requireTokenScope, teamPostJson, teamResult } from "../team-router.ts";
import { scopeOf } from "../tokens/token.ts";
import { setupUrlData } from "./account-schemas.ts";

// Operations on accounts that need the scope `operate`.

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const operation = { tags: ["Accounts"], ...requireTokenScope(scopeOf.accountTerms, "path"), request: { params: accountPath } };

const reached = { keys: z.int().meta({ description: "The number of keys that the change reached.", example: 3 }) };

const suspend = createRoute({
  ...post("/accounts/{id}/suspend", "suspendAccount", "Suspend an account"),
  description:
    "Denies requests with the account's keys, holds its deliveries, and lets its members only read. It is active when the response is sent.",
  ...operation,
  request: {
    params: accountPath,
    body: optionalBody(
      z.strictObject({
        reason: visibleText(1, 500)
          .optional()
          .meta({ description: "What the members of the account read.", example: "The invoice of October is open." }),
      }),
    ),
  },
  responses: teamResult("The account is suspended.", reached),
});

routes.openapi(suspend, async (c) => {
  const { reason = null } = c.req.valid("json") ?? {};
  return respondJson(c, { keys: await suspendAccount(operatorContext(c), c.req.valid("param").id, reason) }, 200);
});

const resume = createRoute({
  ...post("/accounts/{id}/resume", "resumeAccount", "Resume an account"),
  description: "Ends a suspension. It is active when the response is sent.",
  ...operation,
  ...failsWith("conflict"),
  responses: teamResult("The account is active.", reached),
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
  responses: teamResult("The storage.", {
    bytes: stored("bytes", defaultQuotaBytes),
    ...Object.fromEntries(storedNames.map(({ key, label }) => [label, stored(label, maxStored[key])])),
    dropped_events: z.int().meta({ description: "The events that were dropped because the storage was full.", example: 0 }),
  }),
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
  responses: teamResult("The quota.", {
    storage_quota_bytes: z.int().meta({ description: "The quota in bytes.", example: defaultQuotaBytes }),
  }),
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
