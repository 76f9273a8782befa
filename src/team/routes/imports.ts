import { createRoute, z } from "@hono/zod-openapi";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, post } from "../../api/route-parts/requests.ts";
import { idParam, pageQuery, time } from "../../api/route-parts/schemas.ts";
import { periods } from "../../budget/limits.ts";
import {
  algorithms,
  candidatesOf,
  digestBytes,
  importSecretsIn,
  presentations,
  storedAlgorithm,
  strips,
} from "../../credentials/imported-secret.ts";
import { isAlphabet } from "../../credentials/secret-form.ts";
import { connect } from "../../db/client.ts";
import { pageFrom } from "../../db/page.ts";
import { forgetForms } from "../../keys/imported/find-imported.ts";
import { type ImportedKey, type ImportResult, importKeys, isImportedAs } from "../../keys/imported/import-keys.ts";
import { addKeyForm, deleteKeyForm, type KeyForm, listKeyForms } from "../../keys/imported/secret-patterns.ts";
import { externalId, limitFields, limitsInput, metadata, scopesInput } from "../../keys/schemas.ts";
import { timeInputOrNull, visibleText } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { requireNotErased } from "../../lifecycle/erase-account.ts";
import { operatorCommit } from "../../lifecycle/operator-context.ts";
import { accountFor, keyContext, operatorContext } from "../context.ts";
import { accountPath, createTeamRouter, requireTokenScope, teamBase, teamEmpty, teamJson } from "../team-router.ts";

export const routes = createTeamRouter();

const tags = ["Import"];
const maxRows = 100;
const exampleKey = "sk_live_0123456789abcdefghijABCDEFGHIJ";
const exampleHash = "0ac75235730b4c6910ea087a8c32a347c68e254deff6d4483551a50009086068";

/** One key of an import. Each row is validated alone, so a row that is not valid does not stop the others. */
const Row = z
  .strictObject({
    name: visibleText(1, 100).meta({ description: "The name of the key.", example: "Production" }),
    hash: z.string().min(1).max(200).meta({ description: "The hash that you have stored.", example: exampleHash }),
    algorithm: z.enum(algorithms).meta({ description: "The algorithm of the hash.", example: "sha256" }),
    encoding: z.enum(["hex", "base64", "base64url"]).default("hex").meta({ description: "How the hash is written.", example: "hex" }),
    presented: z.enum(presentations).default("text").meta({
      description: "What was hashed: the text of the secret, or the bytes that it writes in hex or base64url.",
      example: "text",
    }),
    secret: z.string().min(1).max(50).optional().meta({ description: "The name of the secret of an HMAC.", example: "pepper" }),
    prefix: z
      .string()
      .max(200)
      .regex(/^[\x21-\x7e]*$/, "Must be printable ASCII without spaces.")
      .optional()
      .meta({ description: "The part of the secret that was not hashed.", example: "sk_live_" }),
    strip: z
      .enum(strips)
      .default("none")
      .meta({ description: "Which part of the secret was hashed: all of it, or what follows its last separator.", example: "none" }),
    last4: z
      .string()
      .regex(/^[\x21-\x7e]{1,4}$/, "Must be the last 1 to 4 characters of the secret.")
      .optional()
      .meta({ description: "The last characters of the secret, for pages.", example: "8f3k" }),
    scopes: scopesInput.optional(),
    limits: limitsInput(periods).optional(),
    state: z
      .enum(["active", "disabled", "revoked"])
      .default("active")
      .meta({ description: "A key that you have revoked is imported as revoked, and is denied as such.", example: "active" }),
    expires_at: timeInputOrNull.optional().meta({ description: "The time when the key expires, or null.", example: null }),
    external_id: externalId.nullable().optional(),
    metadata: metadata.optional(),
  })
  .refine(({ strip, prefix }) => strip === "none" || (prefix !== undefined && prefix !== ""), {
    message: "Is required with this `strip`. It is the part of the secret that was not hashed.",
    path: ["prefix"],
  });

// The dialect is that of the whole document.
const { $schema: _, ...rowSchema } = z.toJSONSchema(Row, { io: "input", unrepresentable: "any" });

const slow = /^(?:bcrypt|pbkdf2|argon2|scrypt)/i;
/** The beginnings of slow hashes in the modular crypt format, and as Django, Werkzeug and LDAP write them. */
const slowHash = /^(?:\$(?:2[abxy]?|1|5|6|7|y|s0)\$|[${]?(?:argon2|bcrypt|pbkdf2|scrypt)[\w:-]*[$}:])/i;
/** A hash as Django writes it, with the name of its algorithm and an empty salt. */
const djangoHash = /^(sha256|sha512)\$\$(?=[0-9a-f]+$)/;
const slowReason =
  "Slow password hashes cannot be imported: checking one takes longer than the rest of a request, and a client could keep the service busy with it. Create new keys for these customers, or hash the secrets with SHA-256 when the customers next use them.";

const forms = { hex: /^[0-9A-Fa-f]+$/, base64: /^[0-9A-Za-z+/]+={0,2}$/, base64url: /^[\w-]+={0,2}$/ };

/** What people copy along with a hash, and what to say about it. */
const strayParts: readonly (readonly [form: RegExp, message: string])[] = [
  [/\s/, "Contains a space or a line break. Send the hash in one piece."],
  [/["']|[^\x21-\x7e]/, "Contains quotes or a character that is not visible. Send the hash alone."],
  [/^\w+\$[^$]+\$/, "Contains a salt, so no secret can be looked up by this hash. Create new keys for these customers."],
  [/^(?:\\x|0x)[0-9a-f]+$/i, "Begins with `\\x` or `0x`, as databases print bytes. Send what follows."],
  [/[$:]|^\w+=(?=.)/, "Contains `$`, `:` or `=`. Send the hash alone, without the name of its algorithm."],
  [/^(?:[0-9a-f]{2}-)+[0-9a-f]{2}$/i, "Contains hyphens between its bytes. Send it without them."],
];

/** Converts a hash to hex, or says why it is not a hash of the algorithm. */
function digestOf({ hash, encoding, algorithm }: z.output<typeof Row>): { digest: string } | { wrong: string } {
  const stray = strayParts.find(([form]) => form.test(hash));
  if (stray) return { wrong: stray[1] };
  const [bytes, digest] = [digestBytes[algorithm], Buffer.from(hash, encoding)];
  if (forms[encoding].test(hash) && digest.byteLength === bytes) return { digest: digest.toString("hex") };
  const fitting = (["hex", "base64", "base64url"] as const).find(
    (each) => forms[each].test(hash) && Buffer.from(hash, each).byteLength === bytes,
  );
  const other = algorithms.find((each) => forms[encoding].test(hash) && digest.byteLength === digestBytes[each]);
  const itself = "A secret itself is no hash: hash it first.";
  const hint = other ? `It has the length of ${other}.` : fitting ? `It looks like ${fitting}. ${itself}` : itself;
  return { wrong: `Must be a hash of ${bytes} bytes, as ${encoding}. ${hint}` };
}

const invalidRow = "invalid_body" as const;

/** Parses one row. Returns the key, or the refusal of the row. */
function parseRow(given: unknown, secretNames: readonly string[]): { key: ImportedKey } | { refused: ImportResult } {
  const refused = (detail: string) => ({ refused: { status: 422 as const, id: null, code: invalidRow, detail } });
  const { algorithm, hash } = (given ?? {}) as { algorithm?: unknown; hash?: unknown };
  if ((typeof algorithm === "string" && slow.test(algorithm)) || (typeof hash === "string" && slowHash.test(hash)))
    return refused(slowReason);
  const parsed = Row.safeParse(given);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = issue?.code === "unrecognized_keys" ? [...issue.path, issue.keys[0]] : (issue?.path ?? []);
    return refused(path.length === 0 ? `The row: ${issue?.message}` : `/${path.map(String).join("/")}: ${issue?.message}`);
  }
  const row = { ...parsed.data };
  if (djangoHash.exec(row.hash)?.[1] === row.algorithm) row.hash = row.hash.replace(djangoHash, "");
  const read = digestOf(row);
  if ("wrong" in read) return refused(`/hash: ${read.wrong}`);
  const secret = row.secret ?? (secretNames.length === 1 ? secretNames[0] : undefined) ?? "";
  if (row.algorithm === "hmac-sha256" && !secretNames.includes(secret))
    return refused("/secret: Must be the name of a secret in `IMPORT_SECRETS`.");
  return {
    key: {
      name: row.name,
      algorithm: storedAlgorithm(row.algorithm, secret, row.presented),
      digest: read.digest,
      strip: row.strip,
      stripped: row.strip === "none" ? "" : (row.prefix ?? ""),
      shownPrefix: row.prefix ?? "",
      last4: row.last4 ?? "",
      externalId: row.external_id ?? null,
      metadata: row.metadata ?? {},
      expiresAt: row.expires_at ?? null,
      state: row.state,
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
  tags,
  ...requireTokenScope("keys:write", "path"),
  request: {
    params: accountPath,
    body: body(ImportRequest),
  },
  responses: {
    200: teamJson(
      z.strictObject({
        data: z.array(Result).meta({ description: "One result for each row, in order." }),
        matches: z.boolean().nullable().meta({
          description: "Whether the secret in `try` is the secret of its row. Null without `try`.",
          example: null,
        }),
      }),
      "One result for each row, in order.",
    ),
  },
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
      .refine(isAlphabet, "Must be `hex`, `base58`, `base62`, `base64` or `base64url`, or a list of at least ten different characters.")
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
  ...get("/key-forms", "listKeyForms", "List the forms of imported keys"),
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
  ...post("/key-forms", "addKeyForm", "Register a form of imported keys"),
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
  const context = operatorContext(c);
  const { form, isNew } = await addKeyForm(
    { ...context, commit: operatorCommit(context, "key_form.added", { details: { prefix } }) },
    { prefix, minLength, maxLength, alphabet },
  );
  forgetForms();
  if (!isNew) return respondJson(c, formOf(form), 200);
  return respondJson(c, formOf(form), 201, { Location: `${teamBase}/key-forms/${form.id}` });
});

const removeForm = createRoute({
  ...del("/key-forms/{id}", "deleteKeyForm", "Delete a form of imported keys"),
  description: "Deletes a form. Keys of this form are then denied as unknown, unless another form fits.",
  tags,
  ...requireTokenScope("keys:write"),
  request: { params: idParam("frm_019a1b2c3d4e7f8091a2b3c4d5e6f708", "The id of the form.") },
  responses: { 204: teamEmpty("The form is deleted.") },
});

routes.openapi(removeForm, async (c) => {
  const { id } = c.req.valid("param");
  const context = operatorContext(c);
  await deleteKeyForm({ ...context, commit: operatorCommit(context, "key_form.deleted", { targetId: id }) }, id);
  forgetForms();
  return respondEmpty(c, 204);
});
