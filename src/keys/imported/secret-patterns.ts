import { asc, eq, sql } from "drizzle-orm";
import type { SecretForm } from "../../credentials/secret-form.ts";
import { keyForms } from "../../db/areas/keys/tables.ts";
import type { Db } from "../../db/client.ts";
import { insertWhere } from "../../db/insert-where.ts";
import { wrote } from "../../db/optimistic-locking.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import type { Commit } from "../../outbox/outbox.ts";

// The team registers the forms of the secrets that its customers have. The service looks up only text of a registered form, so text of any other form
// costs no I/O.

export type KeyForm = typeof keyForms.$inferSelect;

/** The context of changes of forms. `commit` also writes the entry in the audit. */
interface FormContext {
  db: Db;
  now: number;
  commit: Commit;
}

const maxForms = 20;

export const listKeyForms = (db: Db): Promise<KeyForm[]> => db.select().from(keyForms).orderBy(asc(keyForms.id));

/** Registers a form. Throws `limit_reached` if there are 20 forms. Registering the same form again returns the existing one. */
export async function addKeyForm({ db, now, commit }: FormContext, form: SecretForm): Promise<{ form: KeyForm; isNew: boolean }> {
  const known = (await listKeyForms(db)).find(
    (each) =>
      each.prefix === form.prefix &&
      each.minLength === form.minLength &&
      each.maxLength === form.maxLength &&
      each.alphabet === form.alphabet,
  );
  if (known) return { form: known, isNew: false };
  const made: KeyForm = { id: newId("frm", now), ...form, createdAt: now };
  const when = sql`(SELECT count(*) FROM key_forms) < ${maxForms}`;
  const { inserted } = await commit({
    whenFull: "write",
    result: made,
    events: [],
    statements: { inserted: insertWhere(db, keyForms, made, when) },
    when,
  });
  if (!wrote(inserted))
    throw new Failure(
      "limit_reached",
      `A deployment may have at most ${maxForms} forms of imported keys. Delete a form that no key needs.`,
    );
  return { form: made, isNew: true };
}

/** Deletes a form. Keys of this form are then unknown, unless another form fits. Throws `not_found`. */
export async function deleteKeyForm({ db, commit }: Omit<FormContext, "now">, id: string): Promise<void> {
  const when = sql`EXISTS (SELECT 1 FROM key_forms WHERE id = ${id})`;
  const statements = { deleted: db.delete(keyForms).where(eq(keyForms.id, id)).returning({ id: keyForms.id }) };
  const { deleted } = await commit({ whenFull: "write", events: [], statements, when });
  if (!wrote(deleted)) throw new Failure("not_found", "There is no such form.");
}
