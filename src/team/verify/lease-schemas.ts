import { z } from "zod";
import { meta, VerifyAnswer } from "./answers.ts";
import { VerifyRequest } from "./schemas.ts";

// The requests and answers about leases of the team's own processes.

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
        required: ["id", "lease"],
        properties: {
          id: {
            type: "string",
            description: "Your id of the entry: `req_` and a UUIDv7 in hex.",
            example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
          },
          lease: { type: "string", description: "The lease that decided.", example: "aWyJsZWFz..." },
          at: { type: "string", description: "The time of the request. The id has it, too.", example: "2026-01-31T10:00:00.000Z" },
          status: { type: "integer", description: "The status of your response, if you know it.", example: 200 },
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

export const LeasesAnswer = z.strictObject({
  data: z.array(
    VerifyAnswer.extend({
      index: z.int().meta(meta("The place of the key in the request, from 0.", 0)),
      retry: z.boolean().meta(meta("Whether you should ask again, because the answer was not there in time.", false)),
      lease: z.string().nullable().meta(meta("The lease, or null if there is none.", "aWyJsZWFz...")),
      units: z.int().meta(meta("The units of the lease. They are counted already.", 12)),
      for_ms: z.int().meta(meta("How long the lease lasts from the time when you asked, in milliseconds.", 2000)),
      is_urgent: z
        .boolean()
        .meta(meta("Whether little of a limit is left, so that what is left of the lease has to come back at its end.", false)),
      order: z
        .int()
        .meta(meta("Grows with each answer about the key, so that you know which of two answers is the later one.", 1_795_312_800_000_000)),
      allowed_ips: z.array(z.string()).meta(meta("The addresses that may use the key. Empty if all may.", [])),
    }),
  ),
  forms: z
    .array(z.strictObject({ prefix: z.string(), minLength: z.int(), maxLength: z.int(), characters: z.string() }))
    .meta(
      meta("The registered forms of imported keys.", [
        { prefix: "acme_", minLength: 20, maxLength: 40, characters: "0123456789abcdef_.|-" },
      ]),
    ),
});
export type LeasesAnswer = z.output<typeof LeasesAnswer>;
