import { z } from "@hono/zod-openapi";
import type { Account } from "../../accounts/account.ts";
import { defaultQuotaBytes } from "../../accounts/storage.ts";
import { intOrNull, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { fixedPeriods } from "../../budget/limits.ts";
import { externalId, metadata, metadataPatch } from "../../keys/metadata.ts";
import { limitsInput } from "../../keys/schemas.ts";
import { email, visibleText } from "../../lib/inputs/values.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { databaseOf, numberOf } from "../../log/databases.ts";
import { retentionDays as retention } from "../../log/retention.ts";

const limitData = z.strictObject({ per: z.string(), limit: z.int() });
export const AccountData = z
  .strictObject({
    id: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    external_id: stringOrNull.meta({ description: "The id of the account in your own system, or null.", example: "cus_4711" }),
    name: z.string().meta({ description: "The name of the account.", example: "Acme" }),
    email: stringOrNull.meta({ description: "The email address of the account, or null.", example: "ops@acme.dev" }),
    metadata: z.record(z.string(), z.unknown()).meta({ description: "Your own values.", example: { plan: "pro" } }),
    status: z.enum(["active", "suspended"]).meta({ description: "Whether the account is suspended.", example: "active" }),
    on_unavailable: z
      .enum(["deny", "known"])
      .meta({ description: "What `verify` does with a request while the guard of its key cannot be reached.", example: "deny" }),
    plan_id: stringOrNull.meta({ description: "The plan of the account, or null.", example: null }),
    limits: z.array(limitData).meta({
      description: "The limits that the keys share, as the budget and all guards have confirmed them.",
      example: [{ per: "hour", limit: 5000 }],
    }),
    own_limits: z.array(limitData).meta({
      description: "Limits of the account itself, which replace single limits of its plan.",
      example: [{ per: "hour", limit: 5000 }],
    }),
    pending_limits: z
      .array(limitData)
      .nullable()
      .meta({ description: "Limits that are saved but not yet active, or null.", example: null }),
    limit_ceiling: z.int().meta({ description: "The highest limit per hour of a key.", example: 5000 }),
    max_live_keys: z.int().meta({ description: "The maximum number of live keys.", example: 50 }),
    key_limits: z.array(limitData).meta({ description: "The highest limits of a key.", example: [] }),
    retention_days: intOrNull.meta({ description: "The retention of the request log in days, or null for the default.", example: null }),
    storage_quota_bytes: z.int().meta({ description: "The storage quota in the main database, in bytes.", example: 104857600 }),
    activity_database: z.string().meta({ description: "The database of the request log.", example: "ACTIVITY_0" }),
    log_writer: z.int().meta({ description: "The number of the log writer.", example: 0 }),
    suspension_reason: stringOrNull.meta({ description: "What the members read about the suspension, or null.", example: null }),
    suspended_at: time.nullable().meta({ description: "The time when the account was suspended, or null." }),
    created_at: time.meta({ description: "The time when the account was created." }),
  })
  .openapi("Account", { description: "An account: one customer of your API." });

/** Returns the public form of an account. */
export const accountData = (account: Account): z.infer<typeof AccountData> => ({
  id: account.id,
  external_id: account.externalId,
  name: account.name,
  email: account.email === "" ? null : account.email,
  metadata: account.metadata,
  status: account.suspendedAt === null ? "active" : "suspended",
  on_unavailable: account.onUnavailable,
  plan_id: account.planId,
  limits: account.limitsInForce,
  own_limits: account.ownTerms.limits ?? [],
  pending_limits: account.pushedLimitsVersion < account.limitsVersion ? account.sharedLimits : null,
  limit_ceiling: account.limitCeiling,
  max_live_keys: account.maxLiveKeys,
  key_limits: account.keyLimits,
  retention_days: account.retentionDays,
  storage_quota_bytes: account.storageQuotaBytes ?? defaultQuotaBytes,
  activity_database: databaseOf(account.logWriter),
  log_writer: numberOf(account.logWriter),
  suspension_reason: account.suspensionReason,
  suspended_at: isoOrNull(account.suspendedAt),
  created_at: iso(account.createdAt),
});

export const retentionDaysInput = z.int().min(retention.min).max(retention.max).nullable();
const nameInput = visibleText(1, 200).meta({ description: "The name of the account.", example: "Acme" });
const emailInput = email.meta({ description: "The email address of the account.", example: "ops@acme.dev" });
export const NewAccount = z.strictObject({
  name: nameInput,
  email: emailInput,
  external_id: externalId.nullable().optional(),
  metadata: metadata.optional(),
});
export const AccountUpsert = z.strictObject({ name: nameInput, email: emailInput.nullable().optional(), metadata: metadata.optional() });
export const AccountPatch = z.strictObject({
  name: nameInput.optional(),
  email: emailInput.nullable().optional(),
  external_id: externalId.nullable().optional(),
  metadata: metadataPatch.optional(),
  on_unavailable: z
    .enum(["deny", "known"], {
      error: ({ input }) =>
        input === "allow"
          ? 'Must be "deny" or "known". "allow" does not exist anymore, because it let requests through whose key nobody had checked.'
          : 'Must be "deny" or "known".',
    })
    .optional()
    .meta({
      description: "What `verify` does while a guard cannot be reached. With `known`, D1 decides without counting.",
      example: "known",
    }),
  max_live_keys: z.int().min(1).max(1000).optional().meta({ description: "The maximum number of live keys.", example: 1000 }),
  plan_id: z.string().nullable().optional().meta({ description: "The new plan, or null for none.", example: null }),
  limit_ceiling: z
    .int()
    .min(1)
    .max(999_999_999)
    .nullable()
    .optional()
    .meta({ description: "The highest limit per hour of a key. With `null`, that of the plan applies.", example: 5000 }),
  limits: limitsInput(fixedPeriods)
    .optional()
    .meta({ description: "Own limits in place of single limits of the plan. An empty list leaves those of the plan.", example: [] }),
  retention_days: retentionDaysInput
    .optional()
    .meta({ description: "The retention of the request log in days. With `null`, the default applies.", example: null }),
});
const lowered = z
  .array(z.string())
  .meta({ description: "The keys whose limits were lowered, because the account now allows less.", example: [] });
export const ChangedAccount = z.strictObject({ ...AccountData.shape, lowered });

export const setupUrlData = stringOrNull.meta({
  description: "The setup link for an owner. It is shown only once, so the response to a repeated request has null.",
  example: "https://overview.acme.dev/setup#x",
});
