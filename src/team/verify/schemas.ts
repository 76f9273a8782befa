import { z } from "zod";
import "../../lib/inputs/values.ts";

// The requests of the team's own API. The team API and the RPC entrypoint validate them with the same schemas.

/** The characters that the challenge of RFC 6750 allows in a scope. */
export const scopeForm = /^[!#-[\]-~]{1,100}$/;

/** A value that only describes a request, as text. `described` cuts it, encodes it or leaves it out. */
const description = (maxLength: number, text: string, example: string) =>
  z
    .string()
    .optional()
    .meta({ description: `${text} A value that does not fit is cut or left out, and never rejected.`, maxLength, example });

const scopeNames = (text: string) =>
  z
    .array(z.string().regex(/^[!#-[\]-{}~]{1,100}$/, "Must be the name of a scope."))
    .min(1)
    .max(20)
    .meta({ description: text, example: ["orders:read"] });

export const VerifyRequest = z.strictObject({
  key: z.string().meta({
    description:
      "The credential as the client sent it, with or without `Bearer`. An empty text if there is none. Text of more than 4,096 characters is no key.",
    example: "Bearer dvo_...",
  }),
  scope: z
    .string()
    .regex(scopeForm, "Must be the name of a scope.")
    .optional()
    .meta({ description: "The scope that the key needs.", example: "orders:read" }),
  scopes: z
    .strictObject({ all: scopeNames("All of these scopes are needed."), any: scopeNames("At least one of these scopes is needed.") })
    .partial()
    .optional()
    .meta({ description: "The scopes that the key needs, if they are several.", example: { any: ["orders:read", "orders:write"] } }),
  unknown: z.literal("pass").optional().meta({
    description:
      "Asks whether a credential can only be somebody else's, for example a session: `foreign` is then true, and nothing is counted or logged.",
    example: "pass",
  }),
  user_agent: description(128, "The user agent of the client, for the log.", "curl/8.9"),
  ip: description(64, "The IP address of the client, also with a port. Keys with `allowed_ips` need it.", "203.0.113.7"),
  method: description(32, "The method of the request, for the log.", "GET"),
  path: description(1024, "The path of the request, for the log. Its query is left out.", "/orders/7"),
  route: description(200, "The route of the request, for the log and the figures.", "/orders/{id}"),
  cost: z.int().min(1).max(1000).default(1).meta({ description: "The units that the request uses of each limit.", example: 1 }),
  request_id: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: "Your own id of the request. Calls with the same id count once within ten seconds.", example: "b51d0a9e" }),
  shadow: z
    .strictObject({ accounts: z.array(z.string().max(255)).max(100), share: z.number().min(0).max(1) })
    .partial()
    .optional()
    .meta({
      description:
        "Says that the request runs in any case, so the log shows no denial. `accounts` (ids or external ids) and `share` (from 0 to 1) name the accounts that are the exception: `enforced` is then true.",
      example: { share: 0.1 },
    }),
  report: z
    .boolean()
    .default(true)
    .meta({ description: "Whether you will report the response. Without a report, there is no receipt.", example: true }),
});
export type VerifyRequest = z.output<typeof VerifyRequest>;

export const maxReports = 500;

const maxDurationMs = 86_400_000;

/** A report of a response, as the contract describes it. */
export interface ReportRequest {
  receipt: string;
  status: number;
  duration_ms: number;
  route?: string | undefined;
}

/** Returns a number, or NaN for a value that is neither a number nor text. */
const numberIn = (value: unknown): number => (typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN);

/** Reads a report. A row is decided by itself, and a bad value never rejects it: all but the receipt is replaced by the nearest value that is possible. */
export function reportIn(row: unknown): ReportRequest {
  const { receipt, status, duration_ms: durationMs, route } = (row ?? {}) as Record<string, unknown>;
  const sent = Math.floor(numberIn(status));
  return {
    receipt: typeof receipt === "string" ? receipt : "",
    status: sent >= 100 && sent <= 599 ? sent : 599,
    duration_ms: Math.min(maxDurationMs, Math.max(0, Math.round(numberIn(durationMs)) || 0)),
    route: typeof route === "string" && route !== "" ? route : undefined,
  };
}

const report = {
  type: "object",
  required: ["receipt", "status", "duration_ms"],
  properties: {
    receipt: { type: "string", description: "The receipt of the verification.", example: "aWyJhY2Nf..." },
    status: {
      type: "integer",
      minimum: 100,
      maximum: 599,
      description: "The status of your response. Another value is stored as 599.",
      example: 200,
    },
    duration_ms: {
      type: "number",
      minimum: 0,
      maximum: maxDurationMs,
      description: "The time that your API took, in milliseconds. It is rounded, and at most a day.",
      example: 12.5,
    },
    route: {
      type: "string",
      maxLength: 200,
      description: "The route, if the verification did not name it. It is cut.",
      example: "/orders/{id}",
    },
    streaming: {
      type: "boolean",
      description: "Whether the response still runs. Report a long one before ten minutes are over, with its duration so far.",
      example: false,
    },
  },
};

export const ReportsRequest = z.strictObject({
  reports: z
    .array(z.unknown())
    .min(1)
    .max(maxReports)
    .meta({ description: "The reports, at most 500. Each is decided by itself.", items: report }),
});
