import { createRoute, z } from "@hono/zod-openapi";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, post } from "../../api/route-parts/requests.ts";
import { idParam, pageQuery, time } from "../../api/route-parts/schemas.ts";
import { isAlphabet } from "../../credentials/secret-form.ts";
import { connect } from "../../db/client.ts";
import { pageFrom } from "../../db/page.ts";
import { forgetForms } from "../../keys/imported/find-imported.ts";
import { addKeyForm, deleteKeyForm, type KeyForm, listKeyForms } from "../../keys/imported/secret-patterns.ts";
import { brand } from "../../lib/settings.ts";
import { iso } from "../../lib/time/clock.ts";
import { operatorCommit } from "../../lifecycle/operator-context.ts";
import { operatorContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamBase, teamEmpty, teamJson } from "../team-router.ts";

export const routes = createTeamRouter();

const tags = ["Import"];

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
const reservedPrefixes = [...brand.keyPrefixes, "dvo", "dvop", "svc", "whsec"];

const NewForm = z
  .strictObject({
    prefix: z
      .string()
      .regex(
        /^[\x21-\x2b\x2d-\x7e]{0,100}$/,
        "Must be at most 100 printable ASCII characters without commas, which separate values of a header.",
      )
      .refine(
        (prefix) => !reservedPrefixes.some((own) => prefix.startsWith(`${own}_`)),
        "Must not be a prefix of this service's own secrets.",
      )
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
