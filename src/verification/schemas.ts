import { z } from "zod";
import "../inputs/values.ts";

// The requests of the team's own API. The team API and the RPC entrypoint validate them with the same schemas.

const maxKeyLength = 4096;
/** The characters that the challenge of RFC 6750 allows in a scope. */
export const scopeForm = /^[!#-[\]-~]{1,100}$/;

export const VerifyRequest = z.strictObject({
  key: z.string().max(maxKeyLength).meta({
    description: "The credential as the client sent it, with or without `Bearer`. An empty text if there is none.",
    example: "Bearer dvo_...",
  }),
  scope: z
    .string()
    .regex(scopeForm, "Must be the name of a scope.")
    .optional()
    .meta({ description: "The scope that the key needs.", example: "users:read" }),
  ip: z
    .union([z.ipv4(), z.ipv6()], "Must be an IPv4 or IPv6 address.")
    .optional()
    .meta({ description: "The IP address of the client. Keys with `allowed_ips` need it.", example: "203.0.113.7" }),
  method: z
    .string()
    .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/, "Must be an HTTP method.")
    .optional()
    .meta({ description: "The method of the request, for the log.", example: "GET" }),
  path: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .meta({ description: "The path of the request, for the log. Its query is left out.", example: "/orders/7" }),
  route: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: "The route of the request, for the log and the figures.", example: "/orders/{id}" }),
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

export const maxReports = 500;

export const ReportRequest = z.strictObject({
  receipt: z.string().min(1).max(4000).meta({ description: "The receipt of the verification.", example: "aWyJhY2Nf..." }),
  status: z.int().min(100).max(599).meta({ description: "The status of your response.", example: 200 }),
  duration_ms: z.number().min(0).max(86_400_000).meta({ description: "The time that your API took, in milliseconds.", example: 12.5 }),
  route: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: "The route, if the verification did not name it.", example: "/orders/{id}" }),
});
export type ReportRequest = z.output<typeof ReportRequest>;
export const ReportsRequest = z.strictObject({
  reports: z.array(ReportRequest).min(1).max(maxReports).meta({ description: "The reports, at most 500." }),
});

export const VerifyAnswer = z.strictObject({
  allowed: z.boolean(),
  status: z.int(),
  code: z.string().nullable(),
  degraded: z.boolean(),
  request_id: z.string(),
  receipt: z.string().nullable(),
  account: z
    .strictObject({ id: z.string(), external_id: z.string().nullable(), name: z.string(), metadata: z.record(z.string(), z.unknown()) })
    .nullable(),
  key: z
    .strictObject({
      id: z.string(),
      external_id: z.string().nullable(),
      name: z.string(),
      scopes: z.array(z.string()),
      metadata: z.record(z.string(), z.unknown()),
      expires_at: z.string().nullable(),
    })
    .nullable(),
  rate_limits: z.array(z.strictObject({ name: z.string(), limit: z.int(), used: z.int(), remaining: z.int(), resets_at: z.string() })),
  headers: z.record(z.string(), z.string()),
  problem: z.record(z.string(), z.unknown()).nullable(),
});

export const ReportsAnswer = z.strictObject({
  data: z.array(
    z.strictObject({
      index: z.int(),
      status: z.union([z.literal(200), z.literal(409), z.literal(422), z.literal(503)]),
      code: z.enum(["conflict", "invalid_receipt", "expired_receipt", "unavailable"]).nullable(),
    }),
  ),
});
