import type { Context } from "hono";
import type { z } from "zod";
import type { Account } from "../accounts/account.ts";
import { operatorOn } from "../accounts/actor.ts";
import { type Budgets, budgetsOf, type Guards, guardsOf } from "../admission/guards.ts";
import { connect } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "../http/context.ts";
import * as contexts from "../http/operation-contexts.ts";
import { fieldCode } from "../inputs/field-code.ts";
import { type Operating, operatorCommit } from "../operations/operating.ts";

/** The Hono environment of the operator's request handlers. `c.var` has additional members. */
export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    /** The name of the operator token in the request. */
    operator: string;
  };
}

export type OperatorContext = Context<OperatorEnv>;

/** Returns the context of an operator's action. */
export const operating = (c: OperatorContext): Operating & { guards: Guards; budgets: Budgets; env: Env } => ({
  db: connect(c.env.DB),
  now: Date.now(),
  operator: c.get("operator"),
  outbox: contexts.outboxFor(c),
  guards: guardsOf(c.env),
  budgets: budgetsOf(c.env),
  env: c.env,
});

/** Returns the context for the operator's changes to an account's keys. `action`: the name of the action in the operator audit. */
export function keyContext(c: OperatorContext, { id, logWriter }: Account, action: string, targetId?: string) {
  const commit = operatorCommit(operating(c), action, { accountId: id, ...(targetId !== undefined && { targetId }) });
  return contexts.keyContext(c, { actor: operatorOn(id), logWriter, scopes: null }, commit);
}

/** Returns the query parameters of a request. Throws `invalid_parameter` if a parameter is unknown or invalid. */
export function readQuery<Schema extends z.ZodType>(c: OperatorContext, schema: Schema): z.output<Schema> {
  const read = schema.safeParse(c.req.query());
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const message = [issue?.path.join("."), issue?.message.replace(/\.$/, "")].filter(Boolean).join(": ");
  throw new Failure("invalid_parameter", `The query is not valid: ${message}.`);
}

/**
 * Parses and validates the body of a request. An empty body is treated as `{}`. Throws `malformed_json`, or `invalid_body` with a list of invalid
 * members.
 */
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
  const fieldErrors = read.error.issues.flatMap((issue) => {
    // An unknown member gets an error of its own, with its name.
    const paths = issue.code === "unrecognized_keys" ? issue.keys.map((name) => [...issue.path, name]) : [issue.path];
    return paths.map((path) => ({
      pointer: path.map((part) => `/${String(part)}`).join(""),
      detail: issue.message,
      code: fieldCode(issue),
    }));
  });
  throw new Failure("invalid_body", "The body has members that are not valid.", { fieldErrors });
}

export const idOf = (c: OperatorContext): string => c.req.param("id") ?? "";

/** Returns a setup link with the given token. If `PUBLIC_ORIGIN` is not set, throws `conflict`. */
export function setupUrl(c: OperatorContext, token: string): string {
  const [origin = ""] = c.env.PUBLIC_ORIGIN.split(",");
  if (origin.trim() === "") throw new Failure("conflict", "PUBLIC_ORIGIN is not set, so the link would have no address.");
  return `${new URL(origin.trim()).origin}/setup#${token}`;
}
