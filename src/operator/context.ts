import type { Context } from "hono";
import type { z } from "zod";
import type { Account } from "../accounts/account.ts";
import { operatorOn } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "../http/context.ts";
import * as contexts from "../http/contexts.ts";
import { fieldCode } from "../inputs/field-code.ts";
import { type Operating, operatorCommit } from "../operations/operating.ts";

/** What handlers of the operator find in `c.var`, besides what all requests have. */
export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    /** The name of the token that was sent. */
    operator: string;
  };
}

export type OperatorContext = Context<OperatorEnv>;

/** What verbs of the operator take besides their input. */
export const operating = (c: OperatorContext): Operating & { guards: Env["KEY_GUARD"]; env: Env } => ({
  db: connect(c.env.DB),
  now: Date.now(),
  operator: c.get("operator"),
  outbox: contexts.outboxFor(c),
  guards: c.env.KEY_GUARD,
  env: c.env,
});

/** What verbs of keys take, by the operator on an account. `action`: what the operator's audit says. */
export function keyContext(c: OperatorContext, { id, activityStore: store }: Account, action: string, targetId?: string) {
  const commit = operatorCommit(operating(c), action, { accountId: id, ...(targetId !== undefined && { targetId }) });
  return contexts.keyContext(c, { actor: operatorOn(id), store, scopes: null }, commit);
}

/** The body of a request, by its schema; an empty one is `{}`. Throws `malformed_json` and `invalid_body`, which names each bad member. */
export async function readBody<Schema extends z.ZodType>(c: OperatorContext, schema: Schema): Promise<z.output<Schema>> {
  const text = await c.req.text();
  let given: unknown;
  try {
    given = text === "" ? {} : JSON.parse(text);
  } catch {
    throw new Failure("malformed_json", "The body is not valid JSON.");
  }
  const read = schema.safeParse(given);
  if (read.success) return read.data;
  const faults = read.error.issues.map((issue) => ({
    pointer: issue.path.map((part) => `/${String(part)}`).join(""),
    detail: issue.message,
    code: fieldCode(issue),
  }));
  throw new Failure("invalid_body", "The body has members that are not valid.", { faults });
}

/** What the path names. */
export const idOf = (c: OperatorContext): string => c.req.param("id") ?? "";

/** The setup link of an account that a token opens. Throws `conflict` where nobody has said where the overview is. */
export function setupUrl(c: OperatorContext, token: string): string {
  const [origin = ""] = c.env.PUBLIC_ORIGIN.split(",");
  if (origin.trim() === "") throw new Failure("conflict", "PUBLIC_ORIGIN is not set: there is no address for the link to lead to.");
  return `${new URL(origin.trim()).origin}/setup#${token}`;
}
