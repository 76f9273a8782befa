import { createRoute, z } from "@hono/zod-openapi";
import { periods } from "../../admission/window.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body } from "../../api/route-parts/requests.ts";
import { pageQuery, time } from "../../api/route-parts/schemas.ts";
import { algorithms, digestBytes, importSecretsIn, storedAlgorithm, strips } from "../../credentials/imported-secret.ts";
import { connect } from "../../db/client.ts";
import { pageFrom } from "../../db/page.ts";
import { timeInputOrNull, visibleText } from "../../inputs/values.ts";
import { forgetForms } from "../../keys/find-imported.ts";
import { type ImportedKey, type ImportResult, importKeys } from "../../keys/import-keys.ts";
import { addKeyForm, deleteKeyForm, type KeyForm, listKeyForms } from "../../keys/key-forms.ts";
import { externalId, limitFields, limitsInput, metadata, scopesInput } from "../../keys/schemas.ts";
import { requireNotErased } from "../../operations/erase-account.ts";
import { operatorCommit } from "../../operations/operating.ts";
import { iso } from "../../time/clock.ts";
import { accountFor, keyContext, operating } from "../context.ts";
import { accountPath, createTeamRouter, idPath, requireTokenScope, teamBase, teamEmpty, teamJson } from "../team-router.ts";

export const routes = createTeamRouter();

const tags = ["Import"];
const maxRows = 100;

/** One key of an import. Each row is validated alone, so a row that is not valid does not stop the others. */
const Row = z
  .strictObject({
    name: visibleText(1, 100),
    hash: z.string().min(1).max(200),
    algorithm: z.enum(algorithms),
    encoding: z.enum(["hex", "base64", "base64url"]).default("hex"),
    secret: z.string().min(1).max(50).optional(),
    prefix: z.string().max(200).optional(),
    strip: z.enum(strips).default("none"),
    last4: z
      .string()
      .regex(/^[\x21-\x7e]{1,4}$/)
      .optional(),
    scopes: scopesInput.optional(),
    limits: limitsInput(periods).optional(),
    expires_at: timeInputOrNull.optional(),
    external_id: externalId.nullable().optional(),
    metadata: metadata.optional(),
  })
  .refine(({ strip, prefix }) => strip === "none" || (prefix !== undefined && prefix !== ""), {
    message: "Is required with this `strip`. It is the part of the secret that was not hashed.",
    path: ["prefix"],
  });

const slow = /^(?:bcrypt|pbkdf2|argon2|scrypt)/i;
/** The beginnings of slow hashes in the modular crypt format. */
const slowHash = /^\$(?:2[abxy]?|argon2\w*|pbkdf2[\w-]*|scrypt|5|6|y)\$/;
const slowReason =
  "Slow password hashes cannot be imported: checking one takes longer than the rest of a request, and a client could keep the service busy with it. Create new keys for these customers, or hash the secrets with SHA-256 when the customers next use them.";

/** Converts a hash to hex. Returns null if it does not have the length of the algorithm. */
function digestOf(hash: string, encoding: "hex" | "base64" | "base64url", bytes: number): string | null {
  const form = encoding === "hex" ? /^[0-9A-Fa-f]+$/ : encoding === "base64" ? /^[\w+/]+={0,2}$/ : /^[\w-]+={0,2}$/;
  if (!form.test(hash)) return null;
  const digest = Buffer.from(hash, encoding);
  return digest.byteLength === bytes ? digest.toString("hex") : null;
}

const invalidRow = "invalid_body" as const;

/** Parses one row. Returns the key, or the refusal of the row. */
function parseRow(given: unknown, secretNames: readonly string[]): { key: ImportedKey } | { refused: ImportResult } {
  const refused = (detail: string) => ({ refused: { status: 422 as const, id: null, code: invalidRow, detail } });
  const algorithm = (given as { algorithm?: unknown } | null)?.algorithm;
  const hash = (given as { hash?: unknown } | null)?.hash;
  if ((typeof algorithm === "string" && slow.test(algorithm)) || (typeof hash === "string" && slowHash.test(hash)))
    return refused(slowReason);
  const read = Row.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    const path = issue?.code === "unrecognized_keys" ? [...issue.path, issue.keys[0]] : (issue?.path ?? []);
    return refused(path.length === 0 ? `The row: ${issue?.message}` : `/${path.map(String).join("/")}: ${issue?.message}`);
  }
  const row = read.data;
  const digest = digestOf(row.hash, row.encoding, digestBytes[row.algorithm]);
  if (digest === null) return refused(`/hash: Must be a hash of ${digestBytes[row.algorithm]} bytes, as ${row.encoding}.`);
  const secret = row.secret ?? (secretNames.length === 1 ? secretNames[0] : undefined) ?? "";
  if (row.algorithm === "hmac-sha256" && !secretNames.includes(secret))
    return refused("/secret: Must be the name of a secret in `IMPORT_SECRETS`.");
  return {
    key: {
      name: row.name,
      algorithm: storedAlgorithm(row.algorithm, secret),
      digest,
      strip: row.strip,
      stripped: row.strip === "none" ? "" : (row.prefix ?? ""),
      shownPrefix: row.prefix ?? "",
      last4: row.last4 ?? "",
      externalId: row.external_id ?? null,
      metadata: row.metadata ?? {},
      expiresAt: row.expires_at ?? null,
      ...(row.scopes && { scopes: row.scopes }),
      ...limitFields({ limits: row.limits }),
    } as ImportedKey,
  };
}

const Result = z.strictObject({
  index: z.int().meta({ description: "The place of the row in the request.", example: 0 }),
  status: z
    .int()
    .meta({ description: "201 for a new key, 200 for a key that was imported before, else the reason of the refusal.", example: 201 }),
  id: z.string().nullable().meta({ description: "The id of the key, or null.", example: "key_4fPq2rT8vX0zB6dH" }),
  code: z.string().nullable().meta({ description: "The error code, or null.", example: null }),
  detail: z.string().nullable().meta({ description: "Why the row was refused, or null.", example: null }),
});

const importRoute = createRoute({
  method: "post",
  path: "/accounts/{id}/keys/import",
  operationId: "importKeys",
  summary: "Import keys by their hashes",
  description:
    "Imports up to 100 keys that your customers already have. Each row is decided by itself. Importing the same hash again returns the same key. You declare that the secrets were generated with at least 128 random bits. Register the form of the secrets with `POST /key-forms`, or requests with them are denied as unknown.",
  tags,
  ...requireTokenScope("keys:write", "path"),
  request: {
    params: accountPath,
    body: body(z.strictObject({ keys: z.array(z.unknown()).min(1).max(maxRows) })),
  },
  responses: { 200: teamJson(z.strictObject({ data: z.array(Result) }), "One result for each row, in order.") },
});

routes.openapi(importRoute, async (c) => {
  const account = await accountFor(c, c.req.valid("param").id);
  await requireNotErased(connect(c.env.DB), account.id);
  const secretNames = importSecretsIn(c.env).map(({ name }) => name);
  const rows = c.req.valid("json").keys.map((given) => parseRow(given, secretNames));
  const valid = rows.flatMap((row) => ("key" in row ? [row.key] : []));
  const imported = valid.length > 0 ? await importKeys(keyContext(c, account, "keys.imported"), valid) : [];
  const data = rows.map((row, index) => {
    const { status, id, code, detail } = "key" in row ? (imported.shift() as ImportResult) : row.refused;
    return { index, status, id, code, detail };
  });
  return respondJson(c, { data }, 200);
});

const FormData = z.strictObject({
  id: z.string().meta({ description: "The id of the form.", example: "frm_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  prefix: z.string().meta({ description: "The text with which every secret of the form begins.", example: "sk_live_" }),
  min_length: z.int().meta({ description: "The length of the shortest secret, with the prefix.", example: 32 }),
  max_length: z.int().meta({ description: "The length of the longest secret, with the prefix.", example: 64 }),
  alphabet: z.string().meta({
    description:
      "The characters after the prefix: `hex`, `base58`, `base62`, `base64`, `base64url`, or all characters as a text. The separators `_`, `.`, `|` and `-` are always allowed.",
    example: "base62",
  }),
  created_at: time.meta({ description: "The time when the form was registered." }),
});
const NewForm = z
  .strictObject({
    prefix: z
      .string()
      .regex(
        /^[\x21-\x2b\x2d-\x7e]{0,100}$/,
        "Must be at most 100 printable ASCII characters without commas, which separate values of a header.",
      )
      .refine((prefix) => !/^(?:dvo|dvop|svc|whsec)_/.test(prefix), "Must not be a prefix of this service's own secrets.")
      .meta({ description: "The text with which every secret of the form begins.", example: "sk_live_" }),
    min_length: z.int().min(16).max(512).meta({ description: "The length of the shortest secret, with the prefix.", example: 32 }),
    max_length: z.int().min(16).max(512).meta({ description: "The length of the longest secret, with the prefix.", example: 64 }),
    alphabet: z
      .string()
      .regex(/^[\x21-\x2b\x2d-\x7e]{1,200}$/, "Must be a name of an alphabet or a list of printable ASCII characters without commas.")
      .meta({ description: "The characters after the prefix.", example: "base62" }),
  })
  .refine(({ min_length: min, max_length: max }) => min <= max, { message: "Must be at least `min_length`.", path: ["max_length"] });

const formOf = ({ id, prefix, minLength, maxLength, alphabet, createdAt }: KeyForm): z.infer<typeof FormData> => ({
  id,
  prefix,
  min_length: minLength,
  max_length: maxLength,
  alphabet,
  created_at: iso(createdAt),
});

const listForms = createRoute({
  method: "get",
  path: "/key-forms",
  operationId: "listKeyForms",
  summary: "List the forms of imported keys",
  description: "Lists the registered forms, oldest first.",
  tags,
  ...requireTokenScope("accounts:read"),
  request: { query: z.strictObject(pageQuery) },
  responses: { 200: teamJson(pageOf(FormData, "KeyFormPage"), "A page of forms.", "Link") },
});

routes.openapi(listForms, async (c) => {
  const { limit, cursor } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  // There are at most 20 forms.
  const forms = (await listKeyForms(connect(c.env.DB))).filter(({ id }) => after === undefined || id > after);
  const { rows, next } = pageFrom(forms, limit, ({ id }) => id);
  return respondPage(c, rows.map(formOf), next);
});

const addForm = createRoute({
  method: "post",
  path: "/key-forms",
  operationId: "addKeyForm",
  summary: "Register a form of imported keys",
  description:
    "Registers a form. Text of no registered form is denied without a look-up. A new form is in use everywhere after ten seconds.",
  tags,
  ...requireTokenScope("keys:write"),
  ...failsWith("limit_reached"),
  request: { body: body(NewForm) },
  responses: {
    200: teamJson(FormData, "The same form was registered before."),
    201: teamJson(FormData, "The new form.", "Location"),
  },
});

routes.openapi(addForm, async (c) => {
  const { prefix, min_length: minLength, max_length: maxLength, alphabet } = c.req.valid("json");
  const context = operating(c);
  const { form, isNew } = await addKeyForm(
    { ...context, commit: operatorCommit(context, "key_form.added", { details: { prefix } }) },
    { prefix, minLength, maxLength, alphabet },
  );
  forgetForms();
  if (!isNew) return respondJson(c, formOf(form), 200);
  return respondJson(c, formOf(form), 201, { Location: `${teamBase}/key-forms/${form.id}` });
});

const removeForm = createRoute({
  method: "delete",
  path: "/key-forms/{id}",
  operationId: "deleteKeyForm",
  summary: "Delete a form of imported keys",
  description: "Deletes a form. Keys of this form are then denied as unknown, unless another form fits.",
  tags,
  ...requireTokenScope("keys:write"),
  request: { params: idPath("frm_019a1b2c3d4e7f8091a2b3c4d5e6f708", "The id of the form.") },
  responses: { 204: teamEmpty("The form is deleted.") },
});

routes.openapi(removeForm, async (c) => {
  const { id } = c.req.valid("param");
  const context = operating(c);
  await deleteKeyForm({ ...context, commit: operatorCommit(context, "key_form.deleted", { targetId: id }) }, id);
  forgetForms();
  return respondEmpty(c, 204);
});
