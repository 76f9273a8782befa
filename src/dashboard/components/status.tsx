import { STATUS_CODES } from "node:http";
import type { z } from "zod";
import type { KeyStatus } from "../../keys/key.ts";
import type { Delivery } from "../../webhooks/read-deliveries.ts";
import type { WebhookData } from "../../webhooks/schemas.ts";

// Every state has an icon, a word and a color. No state relies on color alone.

type Tone = "good" | "warn" | "bad" | "plain";
const marks: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", plain: "◌" };

const State = ({ tone, children }: { tone: Tone; children: string }) => (
  <span class={`state ${tone}`}>
    <span aria-hidden="true">{marks[tone]}</span> {children}
  </span>
);

/** Renders a status code with its reason phrase. */
export const StatusCode = ({ status }: { status: number | null }) =>
  status === null ? (
    <State tone="plain">not reported</State>
  ) : (
    <State tone={status < 400 ? "good" : status < 500 ? "warn" : "bad"}>{`${status} ${STATUS_CODES[status] ?? ""}`.trim()}</State>
  );

const keyTones: Record<KeyStatus, Tone> = { active: "good", disabled: "plain", expired: "warn", revoked: "bad" };
export const KeyState = ({ status }: { status: KeyStatus }) => <State tone={keyTones[status]}>{status}</State>;

type WebhookStatus = z.infer<typeof WebhookData>["status"];
const webhookTones: Record<WebhookStatus, Tone> = { active: "good", disabled: "plain", failing: "bad" };
export const WebhookState = ({ status }: { status: WebhookStatus }) => <State tone={webhookTones[status]}>{status}</State>;

const deliveryTones: Record<Delivery["status"], Tone> = { delivered: "good", pending: "plain", failed: "bad", held: "warn" };
export const DeliveryState = ({ status }: { status: Delivery["status"] }) => <State tone={deliveryTones[status]}>{status}</State>;
