import type { ReadContext } from "../../../accounts/actor.ts";
import { readAccountLimits } from "../../../admission/account-limits.ts";
import { highestOf, nearestLimit, readLiveUsages } from "../../../admission/rate-limit-usage.ts";
import { listActivity } from "../../../log/read/read-activity.ts";
import { readCells } from "../../../usage/read-breakdown.ts";
import { readUsage } from "../../../usage/read-usage.ts";
import { requireAsOf } from "../../../usage/usage-snapshot.ts";
import { usageWindowsAt } from "../../../usage/windows.ts";
import { readAttemptCounts } from "../../../webhooks/subscriptions/health.ts";
import { listWebhooks } from "../../../webhooks/subscriptions/read-webhooks.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { maxWebhooks } from "../../../webhooks/subscriptions/write-webhooks.ts";
import { type WebhookStatus, webhookStatus } from "../../components/status.tsx";
import type { PageContext } from "../../context.ts";
import { readKeyChoices } from "../../key-choices.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { readDifference } from "../../read-difference.ts";
import { readRequestDetails } from "../request/read.ts";

const entriesShown = 10;

/** A webhook with its state. */
export type ShownWebhook = Webhook & { status: WebhookStatus };

async function readWebhooks(context: ReadContext): Promise<ShownWebhook[]> {
  const webhooks = await listWebhooks(context, { limit: maxWebhooks });
  const counts = await readAttemptCounts(
    context,
    webhooks.map(({ id }) => id),
  );
  return webhooks.map((webhook) => ({
    ...webhook,
    status: webhookStatus(webhook, counts.get(webhook.id) ?? { attempts: 0, succeeded: 0 }),
  }));
}

/** Reads what the start page shows. */
export async function readOverview(c: PageContext) {
  const context = await snapshotContext(c);
  const { now } = context;
  const { window, previous } = usageWindowsAt("30d", now);
  const [usage, usages, shared, { entries }, keys, webhooks, cells, formerCells] = await Promise.all([
    readUsage(context, { window: "30d" }),
    // If a guard does not respond, only the rate-limit figure is missing.
    readLiveUsages(context).catch(() => null),
    readAccountLimits(contextOf(c)).catch(() => null),
    listActivity(context, { filter: {}, limit: entriesShown }),
    readKeyChoices(context),
    readWebhooks(context),
    readCells(context, window),
    readCells(context, previous),
  ]);
  const highest = usages && highestOf(usages, now);
  const nearest = nearestLimit(usages ?? [], shared?.limits ?? []);
  const { difference, limit } = await readDifference(context, window, cells, formerCells);
  const called: ReadonlySet<string> = new Set(cells.map(({ keyId }) => keyId));
  // While all requests of an account fit the list, its first one is the oldest of them. If it cannot be read, only its panel is missing.
  const { value, previous: former } = usage.totalRequests;
  const isYoung = former === 0 && entries.length < entriesShown && value <= entries.reduce((sum, { count }) => sum + count, 0);
  const [oldest] = isYoung ? entries.slice(-1) : [];
  const first = oldest ? await readRequestDetails(c, oldest.id).catch(() => null) : null;
  return { now, asOf: requireAsOf(context), window, usage, highest, nearest, entries, keys, webhooks, called, difference, limit, first };
}
