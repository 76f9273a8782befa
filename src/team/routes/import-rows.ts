import { z } from "@hono/zod-openapi";
import { periods } from "../../budget/limits.ts";
import { algorithms, digestBytes, presentations, storedAlgorithm, strips } from "../../credentials/imported-secret.ts";
import type { ImportedKey, ImportResult } from "../../keys/imported/import-keys.ts";
import { externalId, metadata } from "../../keys/metadata.ts";
import { limitFields, limitsInput, scopesInput } from "../../keys/schemas.ts";
import { timeInputOrNull, visibleText } from "../../lib/inputs/values.ts";

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
export const { $schema: _, ...rowSchema } = z.toJSONSchema(Row, { io: "input", unrepresentable: "any" });

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

export function parseRow(given: unknown, secretNames: readonly string[]): { key: ImportedKey } | { refused: ImportResult } {
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
