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
  report: z
    .boolean()
    .default(true)
    .meta({ description: "Whether you will report the response. Without a report, there is no receipt.", example: true }),
});
export type VerifyRequest = z.output<typeof VerifyRequest>;

export const maxLeaseKeys = 200;

/** The request of an item, and what a lease is asked for. */
const LeaseItem = z.strictObject({
  key: VerifyRequest.shape.key.optional(),
  lease: z
    .string()
    .max(1000)
    .optional()
    .meta({ description: "The lease to renew or to give back, in place of `key`.", example: "aWyJsZWFz..." }),
  request: VerifyRequest.omit({ key: true }).optional().meta({ description: "The request that waits for a decision, with `key` alone." }),
  want: z
    .int()
    .min(0)
    .max(64)
    .default(0)
    .meta({ description: "The number of requests with the key in the last two seconds.", example: 12 }),
  back: z
    .array(
      z.strictObject({
        lease: z.string().max(1000).meta({ description: "A lease that is over.", example: "aWyJsZWFz..." }),
        unused: z.int().min(0).max(64).meta({ description: "The units that were not used.", example: 3 }),
      }),
    )
    .max(16)
    .default([])
    .meta({ description: "What is left of earlier leases of the key." }),
});
export type LeaseItem = z.output<typeof LeaseItem>;

export const LeasesRequest = z.strictObject({
  holder: z.string().min(1).max(100).meta({ description: "A name of your process.", example: "api-1/4711" }),
  protocol: z.literal(1).meta({ description: "The number of the protocol.", example: 1 }),
  keys: z.array(LeaseItem).min(1).max(maxLeaseKeys).meta({ description: "The keys, at most 200. Each is answered by itself." }),
});

export const EntriesRequest = z.strictObject({
  holder: LeasesRequest.shape.holder,
  entries: z
    .array(z.unknown())
    .min(1)
    .max(500)
    .meta({
      description: "The requests that your process decided by leases, at most 500. Each is decided by itself.",
      items: {
        type: "object",
        required: ["id", "lease", "status", "duration_ms"],
        properties: {
          id: {
            type: "string",
            description: "Your id of the entry: `req_` and a UUIDv7 in hex.",
            example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
          },
          lease: { type: "string", description: "The lease that decided.", example: "aWyJsZWFz..." },
          at: { type: "string", description: "The time of the request. The id has it, too.", example: "2026-01-31T10:00:00.000Z" },
          status: { type: "integer", description: "The status of your response.", example: 200 },
          duration_ms: { type: "number", description: "The time that your API took, in milliseconds.", example: 12.5 },
          method: { type: "string", description: "The method of the request.", example: "GET" },
          path: { type: "string", description: "The path of the request.", example: "/orders/7" },
          route: { type: "string", description: "The route of the request.", example: "/orders/{id}" },
          ip: { type: "string", description: "The IP address of the client.", example: "203.0.113.7" },
          user_agent: { type: "string", description: "The user agent of the client.", example: "curl/8.9" },
          cost: { type: "integer", description: "The units of the request.", example: 1 },
        },
      },
    }),
});

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

const meta = (description: string, example: unknown) => ({ description, example });

export const VerifyAnswer = z.strictObject({
  allowed: z.boolean().meta(meta("Whether the request may run.", true)),
  status: z.int().meta(meta("The status for the client: 200, or that of the denial.", 200)),
  code: z.string().nullable().meta(meta("The error code of the denial, or null.", null)),
  degraded: z.boolean().meta(meta("Whether D1 decided without counting the request, because its guard could not be reached.", false)),
  foreign: z.boolean().meta(meta("Whether the credential can only be somebody else's. False unless the request has `unknown`.", false)),
  request_id: z.string().meta(meta("The id of the log entry.", "req_019a1b2c3d4e7f8091a2b3c4d5e6f708")),
  receipt: z.string().nullable().meta(meta("The receipt for your report, or null if there is nothing to report.", "aWyJhY2Nf...")),
  account: z
    .strictObject({
      id: z.string().meta(meta("The id of the account.", "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708")),
      external_id: z.string().nullable().meta(meta("The id of the account in your own system, or null.", "cus_4711")),
      name: z.string().meta(meta("The name of the account.", "Acme")),
      metadata: z.record(z.string(), z.unknown()).meta(meta("Your own values of the account.", { plan: "pro" })),
    })
    .nullable()
    .meta({ description: "The account of the key, or null if the key is not known." }),
  key: z
    .strictObject({
      id: z.string().meta(meta("The id of the key.", "key_4fPq2rT8vX0zB6dH")),
      external_id: z.string().nullable().meta(meta("The id of the key in your own system, or null.", null)),
      name: z.string().meta(meta("The name of the key.", "Continuous integration")),
      scopes: z.array(z.string()).meta(meta("The scopes of the key.", ["orders:read"])),
      metadata: z.record(z.string(), z.unknown()).meta(meta("Your own values of the key.", {})),
      expires_at: z.string().nullable().meta(meta("The time when the key expires, or null.", null)),
    })
    .nullable()
    .meta({ description: "The key, or null if it is not known." }),
  rate_limits: z
    .array(
      z.strictObject({
        name: z.string().meta(meta("The name of the limit.", "hour")),
        limit: z.int().meta(meta("The units of a window.", 5000)),
        used: z.int().meta(meta("The units that are used, with this request.", 3350)),
        remaining: z.int().meta(meta("The units that are left.", 1650)),
        resets_at: z.string().meta(meta("The time when the window ends.", "2026-01-31T10:00:00.000Z")),
      }),
    )
    .meta({ description: "The limits of the key and of its account after the request. Empty if they are not known." }),
  headers: z
    .record(z.string(), z.string())
    .meta(meta("The headers for the response to the client.", { "X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "1650" })),
  problem: z
    .record(z.string(), z.unknown())
    .nullable()
    .meta(meta("The body of the response to the client, if the request is denied, or null.", null)),
});
export type VerifyAnswer = z.output<typeof VerifyAnswer>;

export const LeasesAnswer = z.strictObject({
  data: z.array(
    VerifyAnswer.extend({
      index: z.int().meta(meta("The place of the key in the request, from 0.", 0)),
      retry: z.boolean().meta(meta("Whether you should ask again, because the answer was not there within 300 ms.", false)),
      lease: z.string().nullable().meta(meta("The lease, or null if there is none.", "aWyJsZWFz...")),
      units: z.int().meta(meta("The units of the lease. They are counted already.", 12)),
      for_ms: z.int().meta(meta("How long the lease lasts from the time when you asked, in milliseconds.", 2000)),
      allowed_ips: z.array(z.string()).meta(meta("The addresses that may use the key. Empty if all may.", [])),
    }),
  ),
  forms: z
    .array(z.strictObject({ prefix: z.string(), minLength: z.int(), maxLength: z.int(), alphabet: z.string() }))
    .meta(meta("The registered forms of imported keys.", [{ prefix: "acme_", minLength: 20, maxLength: 40, alphabet: "base62" }])),
});
export type LeasesAnswer = z.output<typeof LeasesAnswer>;

export const ReportsAnswer = z.strictObject({
  data: z.array(
    z.strictObject({
      index: z.int().meta(meta("The place of the report in the request, from 0.", 0)),
      status: z
        .union([z.literal(200), z.literal(409), z.literal(422), z.literal(503)])
        .meta(meta("200 if the response is in the log, 503 if you should send the report again.", 200)),
      code: z
        .string()
        .nullable()
        .meta(
          meta(
            "Why the report was rejected: `conflict`, `invalid_receipt`, `expired_receipt` or `unavailable`. Null if it was taken.",
            null,
          ),
        ),
    }),
  ),
});
export type ReportAnswer = z.output<typeof ReportsAnswer>["data"][number];
