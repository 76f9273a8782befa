import { sql } from "drizzle-orm";
import {
  type Candidate,
  candidatesOf,
  type ImportSecrets,
  importedHashOf,
  type Strip,
  separatorOf,
} from "../credentials/imported-secret.ts";
import { isKeyForm } from "../credentials/key-format.ts";
import { hasForm, setMaskedForms } from "../credentials/secret-form.ts";
import { hashOf } from "../crypto/hash.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { manifests } from "../registry/manifests.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { type KeyForm, listKeyForms } from "./key-forms.ts";

/** The time for which an isolate uses the registered forms without reading them again, in milliseconds. */
const formsMs = 10 * secondMs;
const timeoutMs = 3 * secondMs;
const maxFound = 10_000;
/** No request waits longer than this before its look-up. */
const longestWaitSeconds = 10;
/** The maximum number of look-ups without a result in a second, for each isolate. */
export const maxMissesPerSecond = 100;

/** A key that has an imported secret, and the value that its guard compares. */
export interface FoundKey {
  keyId: string;
  secretHash: string;
}

/** What this isolate knows. The keys are hashes of texts, never the texts. */
const found = new Map<string, FoundKey>();
let forms: { list: readonly KeyForm[]; readAt: number } | null = null;
/** After D1 has not responded, this isolate does not ask it again for a second. */
let unreadableUntil = 0;
let misses = { second: 0, count: 0, texts: new Set<string>() };

/** Makes this isolate read the registered forms again. */
export const forgetForms = (): void => {
  forms = null;
  unreadableUntil = 0;
};

/** The beginnings of this service's own ids. A form with such a prefix is not masked, because ids would be masked, too. */
const idPrefixes = manifests.flatMap(({ ids = {} }) => Object.keys(ids).map((prefix) => `${prefix}_`));

/** Returns the registered forms. Reads them at most once in ten seconds. From then on, this isolate masks secrets of these forms in its logs. */
export async function knownForms(db: Db, now: number): Promise<readonly KeyForm[]> {
  if (!forms || now >= forms.readAt + formsMs || now < forms.readAt) {
    // Other requests go on with the forms that this isolate knows.
    if (forms) forms = { ...forms, readAt: now };
    // While D1 does not respond, the forms that this isolate knows stay in use.
    if (!forms && now < unreadableUntil) throw new Error("the forms of imported keys cannot be read");
    const list = await withDeadline(listKeyForms(db), timeoutMs, "Reading the forms of imported keys").catch((error: unknown) => {
      unreadableUntil = Date.now() + secondMs;
      if (!forms) throw error;
      return forms.list;
    });
    forms = { list, readAt: now };
    setMaskedForms(list.filter(({ prefix }) => !idPrefixes.includes(prefix)));
  }
  return forms.list;
}

/** Returns whether a text has a registered form. */
export async function isRegistered(db: Db, text: string, now: number): Promise<boolean> {
  if (text === "" || isKeyForm(text)) return false;
  return (await knownForms(db, now)).some((form) => hasForm(text, form));
}

/**
 * Returns the key that has a text as its imported secret, or null if there is none. Text of no registered form costs no query. An isolate remembers
 * what it has found, because the mapping from a secret to a key never changes. If more than 100 look-ups in a second find nothing, or if D1 does not
 * respond, throws `unavailable`: the service never says that a key is unknown without having looked.
 */
export async function findImported(db: Db, secrets: ImportSecrets, text: string, now: number): Promise<FoundKey | null> {
  try {
    if (!(await isRegistered(db, text, now))) return null;
    const textHash = hashOf(text);
    const known = found.get(textHash);
    if (known) return known;
    const second = Math.floor(now / secondMs);
    // A request that has waited for the forms counts in the second that has begun meanwhile. If the clock was set back, the count begins anew.
    if (second > misses.second || second < misses.second - longestWaitSeconds) misses = { second, count: 0, texts: new Set() };
    // The same text is looked up once in a second.
    if (misses.texts.has(textHash)) return null;
    if (misses.count >= maxMissesPerSecond) throw new Error("too many look-ups have found nothing in this second");
    // The look-up counts as a miss until it has found something, because many look-ups may run at once.
    const counted = misses;
    counted.count++;
    const key = await withDeadline(lookUp(db, secrets, text), timeoutMs, "Looking for an imported key");
    if (key === null) {
      counted.texts.add(textHash);
      return null;
    }
    counted.count--;
    if (found.size >= maxFound) found.clear();
    found.set(textHash, key);
    return key;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("unavailable", "The service cannot look for this API key right now. Try again in a moment.", { cause });
  }
}

/** Returns whether the removed part of a text is the stored one. The team may have stored it with or without the separator. */
const isRemoved = (stored: string, { strip, prefix }: Candidate): boolean => stored === prefix || stored === prefix + separatorOf(strip);

async function lookUp(db: Db, secrets: ImportSecrets, text: string): Promise<FoundKey | null> {
  const candidates = candidatesOf(text, secrets);
  const rows = await db.all<{ algorithm: string; digest: string; key_id: string; strip: Strip; prefix: string }>(
    sql`SELECT imported_secrets.algorithm, imported_secrets.digest, key_id, strip, prefix
      FROM json_each(${JSON.stringify(candidates.map(({ algorithm, digest }) => [algorithm, digest]))}) AS candidate
      CROSS JOIN imported_secrets ON imported_secrets.algorithm = candidate.value ->> 0 AND imported_secrets.digest = candidate.value ->> 1`,
  );
  // The part that was not hashed must be the same, too.
  const row = rows.find((each) =>
    candidates.some(
      (candidate) =>
        candidate.algorithm === each.algorithm &&
        candidate.digest === each.digest &&
        candidate.strip === each.strip &&
        isRemoved(each.prefix, candidate),
    ),
  );
  return row ? { keyId: row.key_id, secretHash: importedHashOf(row) } : null;
}
