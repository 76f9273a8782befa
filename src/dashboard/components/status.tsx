import { STATUS_CODES } from "node:http";
import type { Child } from "hono/jsx";
import type { z } from "zod";
import type { RateLimit } from "../../guard/decision.ts";
import { type Key, type KeyStatus, statusOf } from "../../keys/key.ts";
import { dayMs } from "../../lib/time/clock.ts";
import type { Attempt, Delivery } from "../../webhooks/deliveries/read-deliveries.ts";
import type { AttemptCounts } from "../../webhooks/subscriptions/health.ts";
import { type WebhookData, webhookData } from "../../webhooks/subscriptions/schemas.ts";
import type { Webhook } from "../../webhooks/subscriptions/webhook.ts";
import { countdown, integer } from "../format.ts";
import { Ahead } from "./time.tsx";

// Every state has an icon, a word and a color. No state relies on color alone.

type Tone = "good" | "warn" | "bad" | "plain";
const marks: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", plain: "◌" };

const State = ({ tone, children }: { tone: Tone; children: Child }) => (
  <span class={`state ${tone}`}>
    <span aria-hidden="true">{marks[tone]}</span> {children}
  </span>
);

/** Renders a status code with its reason phrase. `count`: the number of requests that got it, which then stands in place of the phrase. */
export const StatusCode = ({ status, count = 1 }: { status: number | null; count?: number }) =>
  status === null ? (
    <State tone="plain">not reported</State>
  ) : (
    <State tone={status < 400 ? "good" : status < 500 ? "warn" : "bad"}>
      {status}
      {count > 1 ? ` × ${integer(count)}` : STATUS_CODES[status] && <span class="reason"> {STATUS_CODES[status]}</span>}
    </State>
  );

const keyTones: Record<KeyStatus, Tone> = { active: "good", disabled: "plain", expired: "warn", revoked: "bad" };
export const KeyState = ({ status }: { status: KeyStatus }) => <State tone={keyTones[status]}>{status}</State>;

/** How long before its end a key says that it expires. */
const soonMs = 7 * dayMs;

/** Renders the state of a key with what its owner should know: that its limit is used up, or that it expires soon. */
export const KeyCondition = ({ keyRow, usage, now }: { keyRow: Key; usage: RateLimit | undefined; now: number }) => {
  const status = statusOf(keyRow, now);
  if (status !== "active") return <KeyState status={status} />;
  if (usage && usage.used >= usage.limit) return <State tone="bad">limit used up, resets in {countdown(usage.resetsAt, now)}</State>;
  if (keyRow.expiresAt !== null && keyRow.expiresAt - now <= soonMs)
    return (
      <State tone="warn">
        expires <Ahead timeMs={keyRow.expiresAt} now={now} />
      </State>
    );
  return <KeyState status={status} />;
};

export type WebhookStatus = z.infer<typeof WebhookData>["status"] | "degraded" | "not used yet";
const webhookTones: Record<WebhookStatus, Tone> = {
  active: "good",
  "not used yet": "plain",
  disabled: "plain",
  degraded: "warn",
  failing: "bad",
};
export const WebhookState = ({ status }: { status: WebhookStatus }) => <State tone={webhookTones[status]}>{status}</State>;

/** The share of successful attempts below which a webhook that is not failing is degraded. */
const healthyShare = 0.9;

/**
 * Returns the status of a webhook for the overview. An active webhook that has got no event but tests is not used yet. A webhook is degraded if its
 * latest delivery succeeded, but more than a tenth of its latest attempts failed.
 */
export function webhookStatus(webhook: Webhook, { attempts, succeeded }: AttemptCounts): WebhookStatus {
  const { status } = webhookData(webhook);
  if (status !== "active") return status;
  if (attempts === 0) return "not used yet";
  return succeeded < healthyShare * attempts ? "degraded" : status;
}

const deliveryTones: Record<Delivery["status"], Tone> = { delivered: "good", pending: "plain", failed: "bad", held: "warn" };
const errorWords: Record<NonNullable<Attempt["error"]>, string> = {
  unreachable: "no connection",
  timeout: "no response",
  redirect: "redirect",
  status: "error",
  refused_url: "URL not allowed",
};

/** Returns what the receiver said in an attempt, for example "500" or "no connection". */
export const resultOf = ({ status, error }: Pick<Attempt, "status" | "error">): string =>
  status !== null ? String(status) : error === null ? "delivered" : errorWords[error];

/**
 * Renders the state of a delivery. `latest` is the latest attempt. If it failed, the state says how, and when the next attempt is made: "500, trying again in
 * 4 min".
 */
export const DeliveryState = ({
  delivery: { status, nextAttemptAt },
  latest,
  now,
}: {
  delivery: Pick<Delivery, "status" | "nextAttemptAt">;
  latest: Pick<Attempt, "status" | "error"> | undefined;
  now: number;
}) => {
  const isRetried = status === "pending" && latest !== undefined && latest.error !== null;
  if (!isRetried)
    return <State tone={deliveryTones[status]}>{status === "failed" && latest ? `failed, ${resultOf(latest)}` : status}</State>;
  return (
    <State tone="warn">
      {resultOf(latest)}, trying again {nextAttemptAt === null ? "soon" : <Ahead timeMs={nextAttemptAt} now={now} />}
    </State>
  );
};
