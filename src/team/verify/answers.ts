import { z } from "zod";

// The answers of the team API to clients. They only describe what the code returns.

export const meta = (description: string, example: unknown) => ({ description, example });

export const VerifyAnswer = z.strictObject({
  allowed: z.boolean().meta(meta("Whether the request may run.", true)),
  status: z.int().meta(meta("The status for the client: 200, or that of the denial.", 200)),
  code: z.string().nullable().meta(meta("The error code of the denial, or null.", null)),
  degraded: z.boolean().meta(meta("Whether D1 decided without counting the request, because its guard could not be reached.", false)),
  foreign: z.boolean().meta(meta("Whether the credential can only be somebody else's. False unless the request has `unknown`.", false)),
  enforced: z.boolean().meta(meta("Whether a denial counts. False in shadow mode, unless `shadow` names the account.", true)),
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
