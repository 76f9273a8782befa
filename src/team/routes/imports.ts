import { createRoute, z } from "@hono/zod-openapi";
import { respondJson } from "../../api/respond.ts";
import { body, post } from "../../api/route-parts/requests.ts";
import { stringOrNull } from "../../api/route-parts/schemas.ts";
import { candidatesOf, importSecretsIn } from "../../credentials/imported-secret.ts";
import { connect } from "../../db/client.ts";
import { forgetForms } from "../../keys/imported/find-imported.ts";
import { type ImportResult, importKeys, isImportedAs } from "../../keys/imported/import-keys.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { accountFor, keyContext } from "../context.ts";
import { accountPath, createTeamRouter, requireTokenScope, teamResult } from "../team-router.ts";
import { parseRow, rowSchema } from "./import-rows.ts";

export const routes = createTeamRouter();

const maxRows = 100;
const exampleKey = "sk_live_0123456789abcdefghijABCDEFGHIJ";

const Result = z.strictObject({
  index: z.int().meta({ description: "The place of the row in the request.", example: 0 }),
  status: z
    .int()
    .meta({ description: "201 for a new key, 200 for a key that was imported before, else the reason of the refusal.", example: 201 }),
  id: stringOrNull.meta({ description: "The id of the key, or null.", example: "key_4fPq2rT8vX0zB6dH" }),
  code: stringOrNull.meta({ description: "The error code, or null.", example: null }),
  detail: stringOrNull.meta({ description: "Why the row was refused, or null.", example: null }),
});

const ImportRequest = z
  .strictObject({
    keys: z.array(z.unknown()).min(1).max(maxRows).meta({
      description: "The keys, at most 100. Each is decided by itself.",
      items: rowSchema,
    }),
    dry_run: z.boolean().default(false).meta({ description: "Whether to only say what an import would do.", example: true }),
    try: z
      .strictObject({
        index: z.int().min(0).meta({ description: "The place of the row in `keys`.", example: 0 }),
        key: z
          .string()
          .min(1)
          .max(512)
          .meta({ description: "The secret of that row. It is compared, and then forgotten.", example: exampleKey }),
      })
      .optional()
      .meta({ description: "A secret that you know, to try whether its row describes it." }),
  })
  .refine(({ keys, try: tried }) => tried === undefined || tried.index < keys.length, {
    message: "Must be the place of a row in `keys`.",
    path: ["try", "index"],
  });

const importRoute = createRoute({
  ...post("/accounts/{id}/keys/import", "importKeys", "Import keys by their hashes"),
  description:
    "Imports up to 100 keys that your customers already have. Each row is decided by itself. Importing the same hash again returns the same key, unchanged. With `dry_run`, nothing is written, and `try` shows whether a hash fits its secret. You declare that the secrets were generated with at least 128 random bits. Register the form of the secrets with `POST /key-forms`, or requests with them are denied as unknown.",
  tags: ["Import"],
  ...requireTokenScope("keys:write", "path"),
  request: {
    params: accountPath,
    body: body(ImportRequest),
  },
  responses: teamResult("One result for each row, in order.", {
    data: z.array(Result).meta({ description: "One result for each row, in order." }),
    matches: z.boolean().nullable().meta({
      description: "Whether the secret in `try` is the secret of its row. Null without `try`.",
      example: null,
    }),
  }),
});

routes.openapi(importRoute, async (c) => {
  const account = await accountFor(c, c.req.valid("param").id);
  await requireNotErased(connect(c.env.DB), account.id);
  const secretNames = importSecretsIn(c.env).map(({ name }) => name);
  const { keys, dry_run: isDryRun, try: tried } = c.req.valid("json");
  const rows = keys.map((given) => parseRow(given, secretNames));
  const valid = rows.flatMap((row) => ("key" in row ? [row.key] : []));
  const imported = valid.length > 0 ? await importKeys(keyContext(c, account, "keys.imported"), valid, isDryRun) : [];
  forgetForms();
  const data = rows.map((row, index) => {
    const { status, id, code, detail } = "key" in row ? (imported.shift() as ImportResult) : row.refused;
    return { index, status, id, code, detail };
  });
  const row = tried && rows[tried.index];
  const candidates = tried ? candidatesOf(tried.key, importSecretsIn(c.env)) : [];
  const matches = row ? "key" in row && candidates.some((each) => isImportedAs(each, row.key)) : null;
  return respondJson(c, { data, matches }, 200);
});
