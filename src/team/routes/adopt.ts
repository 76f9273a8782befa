import { createRoute, z } from "@hono/zod-openapi";
import { readAccountByExternalId } from "../../accounts/account.ts";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, post } from "../../api/route-parts/requests.ts";
import { importedHashOf } from "../../credentials/imported-secret.ts";
import { connect } from "../../db/client.ts";
import { forgetForms, noteImported } from "../../keys/imported/find-imported.ts";
import { importKeys } from "../../keys/imported/import-keys.ts";
import { externalId } from "../../keys/metadata.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { accountFor, callerOf, keyContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamResult } from "../team-router.ts";
import { VerifyAnswer } from "../verify/answers.ts";
import { VerifyRequest } from "../verify/schemas.ts";
import { verifyFor } from "../verify/verify.ts";
import { parseRow } from "./import-rows.ts";

export const routes = createTeamRouter();

const AdoptRequest = z.strictObject({
  external_id: externalId.meta({ description: "The account's id in your own system.", example: "cus_4711" }),
  hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "Must be a SHA-256 in hex.")
    .meta({
      description: "The SHA-256 of the secret, in hex.",
      example: "0ac75235730b4c6910ea087a8c32a347c68e254deff6d4483551a50009086068",
    }),
  algorithm: z.literal("sha256").meta({ description: "The algorithm of the hash.", example: "sha256" }),
  request: VerifyRequest.omit({ key: true }).optional().meta({ description: "The request that waits for a decision." }),
});

const adopt = createRoute({
  ...post("/keys/adopt", "adoptKey", "Adopt a key at its first use"),
  description:
    "Imports one key that your own check has just accepted, for the account with this external id. It gets the default scopes of the account's plan. From then on, the service decides about it, and about `request` already. A known hash changes nothing, even if its key was revoked. You declare that the secret was generated with at least 128 random bits.",
  tags: ["Import"],
  ...requireTokenScope("keys:adopt", "handler"),
  ...failsWith("not_found", "conflict"),
  request: { body: body(AdoptRequest) },
  responses: teamResult("The key.", {
    id: z.string().meta({ description: "The id of the key.", example: "key_4fPq2rT8vX0zB6dH" }),
    is_new: z.boolean().meta({ description: "Whether the key was imported now.", example: true }),
    answer: VerifyAnswer.nullable().meta({ description: "The decision about `request`, or null without one.", example: null }),
  }),
});

routes.openapi(adopt, async (c) => {
  const { external_id: external, hash, algorithm, request } = c.req.valid("json");
  const found = await readAccountByExternalId(connect(c.env.DB), external);
  const account = await accountFor(c, found?.id ?? "");
  await requireNotErased(connect(c.env.DB), account.id);
  const row = parseRow({ name: "Adopted", hash, algorithm }, []);
  if (!("key" in row)) throw new Failure("invalid_body", row.refused.detail ?? "The key cannot be imported.");
  const context = keyContext(c, account, "keys.imported");
  // A token that adopts keys changes none: a known hash is only looked up.
  const [known] = await importKeys(context, [row.key], true);
  const [result = known] = known?.status === 201 ? await importKeys(context, [row.key]) : [known];
  forgetForms();
  if (!result?.id) throw new Failure(result?.status === 409 ? "conflict" : "invalid_body", result?.detail ?? "The key cannot be imported.");
  const key = { keyId: result.id, secretHash: importedHashOf({ algorithm, digest: hash }) };
  noteImported(hash, key);
  const caller = callerOf(c, c.get("token").accountIds);
  // The hash stands for the secret, which nobody has sent here.
  const answer = request ? (await verifyFor(c.env, caller, { ...request, key: hash }, { found: key })).answer : null;
  return respondJson(c, { id: result.id, is_new: result.status === 201, answer }, 200);
});
