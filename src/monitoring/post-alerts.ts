import { hashOf } from "../lib/crypto/hash.ts";
import { isLoopback } from "../lib/net/loopback.ts";
import { postMessage } from "../lib/net/post-message.ts";
import { iso } from "../lib/time/clock.ts";
import { signatureHeaders } from "../webhooks/subscriptions/signature.ts";
import type { Announcement } from "./alerts.ts";

// Posts alerts to the URL in the secret `ALERT_URL`. Nothing else of the service needs this URL.

/** The secrets of the alerts. Both are optional. */
export interface AlertEnv {
  /** An incoming webhook of Slack, of Google Chat or of a service that takes the messages of Slack, a PagerDuty URL with `routing_key`, or a receiver of your own. */
  ALERT_URL?: string;
  /** The secret that signs alerts for a receiver of your own: `whsec_` and base64. */
  ALERT_SECRET?: string;
  PUBLIC_ORIGIN: string;
}

const pagerDutyHosts = ["events.pagerduty.com", "events.eu.pagerduty.com"];

/** Google Chat refuses messages with members that it does not know. */
const googleChat = "chat.googleapis.com";

const secretForm = /^whsec_(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Returns the URL for alerts, or null if alerts are off. Throws if the URL or the secret is not valid. */
export function alertUrl({ ALERT_URL = "", ALERT_SECRET = "" }: AlertEnv): URL | null {
  if (ALERT_URL.trim() === "") return null;
  const url = URL.canParse(ALERT_URL) ? new URL(ALERT_URL) : null;
  if (url === null || !(url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname))))
    throw new Error("ALERT_URL must be an https:// URL. No alert was posted.");
  if (isPagerDuty(url) && !url.searchParams.get("routing_key"))
    throw new Error("ALERT_URL of PagerDuty must end with ?routing_key= and the key of an integration. No alert was posted.");
  // A signature with a truncated or mistyped secret would look like one of somebody else.
  if (ALERT_SECRET !== "" && !secretForm.test(ALERT_SECRET))
    throw new Error("ALERT_SECRET must be whsec_ and base64. No alert was posted.");
  return url;
}

const originOf = ({ PUBLIC_ORIGIN }: AlertEnv): string => PUBLIC_ORIGIN.split(",")[0]?.trim() || "developer-overview";

const sentenceOf = ({ condition, endedAt }: Announcement): string =>
  `${endedAt === null ? condition.severity.toUpperCase() : "OVER"} ${condition.name}: ${condition.summary}`;

/** PagerDuty refuses a longer summary. */
const maxSummary = 1024;

const isPagerDuty = ({ hostname }: URL): boolean => pagerDutyHosts.includes(hostname);

/** Returns the body of the request that announces alerts. PagerDuty takes one alert in a request. */
export function bodyOf(url: URL, env: AlertEnv, announcements: readonly [Announcement, ...Announcement[]]): object {
  const origin = originOf(env);
  if (isPagerDuty(url)) {
    const [{ id, condition, since, endedAt }] = announcements;
    return {
      routing_key: url.searchParams.get("routing_key"),
      event_action: endedAt === null ? "trigger" : "resolve",
      dedup_key: `${origin} ${id}`,
      payload: {
        summary: `${condition.name}: ${condition.summary}`.slice(0, maxSummary),
        source: origin,
        severity: condition.severity === "page" ? "critical" : "warning",
        timestamp: iso(since),
        custom_details: { runbook: `docs/runbooks/${condition.runbook}` },
      },
    };
  }
  const message = {
    text: [`${origin}`, ...announcements.map((each) => `${sentenceOf(each)} (docs/runbooks/${each.condition.runbook})`)].join("\n"),
  };
  if (url.hostname === googleChat) return message;
  return {
    ...message,
    origin,
    alerts: announcements.map(({ id, condition, since, endedAt }) => ({
      id,
      name: condition.name,
      severity: condition.severity,
      summary: condition.summary,
      runbook: `docs/runbooks/${condition.runbook}`,
      since: iso(since),
      ended_at: endedAt === null ? null : iso(endedAt),
    })),
  };
}

/** Returns the alerts in groups, one for each request. */
export const inRequests = (url: URL, announcements: readonly Announcement[]): [Announcement, ...Announcement[]][] => {
  const [first, ...others] = announcements;
  if (first === undefined) return [];
  return isPagerDuty(url) ? announcements.map((each) => [each]) : [[first, ...others]];
};

/** Returns the id of a message. A message that is posted again keeps its id. */
const messageId = (announcements: readonly Announcement[]): string =>
  `evt_${hashOf(JSON.stringify(announcements.map(({ id, since, endedAt, announcedAt }) => [id, since, endedAt, announcedAt]))).slice(0, 32)}`;

/** Posts alerts in one request. Throws if the receiver does not respond with a 2xx status. */
export async function postAlerts(
  env: AlertEnv,
  url: URL,
  announcements: readonly [Announcement, ...Announcement[]],
  now: number,
): Promise<void> {
  const body = JSON.stringify(bodyOf(url, env, announcements));
  const secret = env.ALERT_SECRET ?? "";
  const signed = secret === "" || isPagerDuty(url) ? {} : signatureHeaders(messageId(announcements), body, [secret], now);
  await postMessage(isPagerDuty(url) ? `${url.origin}${url.pathname}` : url, body, signed, "the receiver of alerts");
}
