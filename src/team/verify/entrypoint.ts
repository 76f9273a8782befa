import { WorkerEntrypoint } from "cloudflare:workers";
import type { z } from "zod";
import { newId } from "../../lib/ids.ts";
import type { ReportAnswer, VerifyAnswer } from "./answers.ts";
import { report } from "./reports.ts";
import { type ReportRequest, ReportsRequest, VerifyRequest } from "./schemas.ts";
import { verify } from "./verify.ts";

/**
 * The entrypoint for Workers of the same Cloudflare account. They call it through a service binding, which is the authorization: the calls need no
 * service token. The arguments and results are those of `POST /verify` and `POST /reports` of the team API. Invalid arguments throw a `TypeError`
 * that names the member.
 */
export class Verify extends WorkerEntrypoint<Env> {
  async verify(request: z.input<typeof VerifyRequest>): Promise<VerifyAnswer> {
    const origin = this.env.PUBLIC_ORIGIN.split(",")[0]?.trim() ?? "";
    const caller = {
      accountIds: null,
      origin,
      requestId: newId("req", Date.now()),
      waitUntil: (work: Promise<void>) => this.ctx.waitUntil(work),
    };
    return verify(this.env, caller, parsed(VerifyRequest, request));
  }

  async report(request: { reports: readonly ReportRequest[] }): Promise<ReportAnswer[]> {
    return report(this.env, null, parsed(ReportsRequest, request).reports);
  }
}

function parsed<Schema extends z.ZodType>(schema: Schema, given: unknown): z.output<Schema> {
  const read = schema.safeParse(given);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new TypeError(`${issue?.path.join(".") || "The request"}: ${issue?.message}`);
}
