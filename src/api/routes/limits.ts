import { createRoute, z } from "@hono/zod-openapi";
import { readAccountLimits } from "../../admission/account-limits.ts";
import { fixedPeriods } from "../../budget/limits.ts";
import { remainingOf } from "../../http/rate-limit-headers.ts";
import { iso } from "../../lib/time/clock.ts";
import { percent } from "../../usage/percent.ts";
import { contextOf } from "../operation-contexts.ts";
import { respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { get } from "../route-parts/requests.ts";
import { json } from "../route-parts/responses.ts";
import { listOf, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const count = z.int().min(0);
const names = fixedPeriods.map((per) => `account-${per}` as const);
const name = z.enum(names).meta({
  description: "The name of the limit, as in the `RateLimit` header: `account-hour`, `account-day` or `account-month`.",
  example: "account-hour",
});

const AccountLimits = z
  .strictObject({
    plan: z
      .strictObject({
        id: z.string().meta({ description: "The id of the plan.", example: "plan_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
        name: z.string().meta({ description: "The name of the plan.", example: "Team" }),
      })
      .nullable()
      .meta({ description: "The plan of the account, or null if it has none." }),
    policies: listOf("The limits that all keys of the account share, the shortest period first. The list is empty if there are none.", {
      name,
      limit: count.meta({
        description: "The number of units that all keys of the account may use together in the period.",
        example: 5000,
      }),
      used: count.meta({ description: "The number of units that are used. The figure is at most five seconds old.", example: 3350 }),
      remaining: count.meta({ description: "The number of units that are left.", example: 1650 }),
      resets_at: time.meta({ description: "The time when the next period begins." }),
      percent: z.number().min(0).max(100).meta({ description: "The percentage of the limit that is used.", example: 67 }),
    }),
    by_key: listOf("What each key has used. The key that has used the most is first. Keys that have used nothing are left out.", {
      key_id: z.string().meta({ description: "The id of the key.", example: "key_4fPq2rT8vX0zB6dH" }),
      key_name: stringOrNull.meta({ description: "The name of the key, or null if the name is not known.", example: "Nightly build" }),
      used: listOf("What the key has used of each limit.", {
        name,
        used: count.meta({ description: "The number of units that the key has used.", example: 1200 }),
      }),
    }),
  })
  .openapi("AccountLimits", { description: "The plan of the account, and the usage of the limits that all its keys share." });

export const routes = createRouter();

const read = createRoute({
  ...get("/account/limits", "getAccountLimits", "Get the limits of the account"),
  description:
    "Returns the plan of the account, what is used of the limits that all its keys share, and how much each key has used. Each key also has limits of its own: see `GET /rate-limit`.",
  tags: ["Usage"],
  ...requireScope("usage:read"),
  responses: { 200: json(AccountLimits, "The limits of the account.") },
});

routes.openapi(read, async (c) => {
  const { plan, limits, byKey } = await readAccountLimits(contextOf(c));
  const policies = limits.map(({ per, limit, used, resetsAt }) => ({
    name: `account-${per}` as const,
    limit,
    used,
    remaining: remainingOf({ limit, used }),
    percent: percent(used, limit),
    resets_at: iso(resetsAt),
  }));
  const by_key = byKey.map(({ keyId, keyName, used }) => ({
    key_id: keyId,
    key_name: keyName,
    used: limits.map(({ per }) => ({ name: `account-${per}` as const, used: used[per] ?? 0 })),
  }));
  return respondJson(c, { plan, policies, by_key }, 200);
});
