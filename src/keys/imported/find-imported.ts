import { sql } from "drizzle-orm";
import {
  candidatesOf,
  type ImportSecrets,
  importedHashOf,
  isStoredAs,
  plainAlgorithms,
  type Strip,
} from "../../credentials/imported-secret.ts";
import { isKeyForm } from "../../credentials/key-format.ts";
import { hasForm, setMaskedForms } from "../../credentials/secret-form.ts";
import type { Db } from "../../db/client.ts";
import { manifests } from "../../db/registry/manifests.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { networkOf } from "../../lib/net/network.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { LookUps } from "./look-ups.ts";
import { type KeyForm, listKeyForms } from "./secret-patterns.ts";

/** The time for which an isolate uses the registered forms without reading them again, in milliseconds. */
const formsMs = 10 * secondMs;
const timeoutMs = 3 * secondMs;
/** The maximum number of look-ups without a result in a second, for the clients of one network in an isolate. */
export const maxMissesPerSecond = 20;
/** A timer costs CPU time, so a request that waits looks seldom. */
const pollMs = 25;

/** A key that has an imported secret, and the value that its guard compares. */
export interface FoundKey {
  keyId: string;
  secretHash: string;
}

const lookUps = new LookUps<FoundKey>();
let forms: { list: readonly KeyForm[]; inUse: ReadonlySet<string>; readAt: number } | null = null;
/** After D1 has not responded, this isolate does not ask it again for a second. */
let unreadableUntil = 0;
/** The look-ups of a network in a second. */
interface Looked {
  running: number;
  found: number;
  missed: number;
}

let looked = { second: 0, ofNetwork: new Map<string, Looked>() };

/** Makes this isolate read the registered forms and the algorithms in use again. */
export const forgetForms = (): void => {
  forms = null;
  unreadableUntil = 0;
};

/** The beginnings of this service's own ids. A form with such a prefix is not masked, because ids would be masked, too. */
const idPrefixes = manifests.flatMap(({ ids = {} }) => Object.keys(ids).map((prefix) => `${prefix}_`));

/** Takes note of a key that was just imported, so that this isolate finds it at once. `hash`: the SHA-256 of the secret in hex. */
export const noteImported = (hash: string, key: FoundKey): void => lookUps.note(hash, key);

/** Returns the registered forms. Reads them at most once in ten seconds. From then on, this isolate masks secrets of these forms in its logs. */
export async function knownForms(db: Db, now: number): Promise<readonly KeyForm[]> {
  if (!forms || now >= forms.readAt + formsMs || now < forms.readAt) {
    // Other requests go on with the forms that this isolate knows.
    if (forms) forms = { ...forms, readAt: now };
    // While D1 does not respond, the forms that this isolate knows stay in use.
    if (!forms && now < unreadableUntil) throw new Error("the forms of imported keys cannot be read");
    const reading = Promise.all([listKeyForms(db), algorithmsInUse(db)]);
    const [list, inUse] = await withDeadline(reading, timeoutMs, "Reading the forms of imported keys").catch((error: unknown) => {
      unreadableUntil = Date.now() + secondMs;
      if (!forms) throw error;
      return [forms.list, forms.inUse] as const;
    });
    forms = { list, inUse, readAt: now };
    setMaskedForms(list.filter(({ prefix }) => !idPrefixes.includes(prefix)));
  }
  return forms.list;
}

/** Returns those algorithms without a secret under which a hash is stored. Reads at most one row for each. */
async function algorithmsInUse(db: Db): Promise<Set<string>> {
  const rows = await db.all<{ name: string }>(
    sql`SELECT value AS name FROM json_each(${JSON.stringify(plainAlgorithms)})
      WHERE EXISTS (SELECT 1 FROM imported_secrets WHERE algorithm = value)`,
  );
  // A key that is adopted at its first use works at once, even if it is the first with this algorithm.
  return new Set(["sha256", ...rows.map(({ name }) => name)]);
}

async function isRegistered(db: Db, text: string, now: number): Promise<boolean> {
  if (text === "" || isKeyForm(text)) return false;
  return (await knownForms(db, now)).some((form) => hasForm(text, form));
}

/**
 * Returns the key that has a text as its imported secret, or null if there is none. Text of no registered form costs no query. An isolate remembers what it has
 * found, because the mapping from a secret to a key never changes. `ip`: the address of the client, or an empty text if it is not known. Throws
 * `too_many_unknown_keys` if more than 20 look-ups in a second for its network find nothing. Throws `unavailable` if D1 does not respond, because only a
 * look-up can tell that a key is unknown.
 */
export async function findImported(db: Db, secrets: ImportSecrets, text: string, ip: string): Promise<FoundKey | null> {
  try {
    if (!(await isRegistered(db, text, Date.now()))) return null;
    const hash = hashOf(text);
    const known = lookUps.known(hash);
    if (known) return known;
    const ofNetwork = await beginLookUp(ip);
    try {
      const found = await lookUps.find(hash, text, (texts) =>
        withDeadline(lookUpAll(db, secrets, texts), timeoutMs, "Looking for imported keys"),
      );
      if (found) ofNetwork.found++;
      else ofNetwork.missed++;
      return found;
    } finally {
      ofNetwork.running--;
    }
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    throw new Failure("unavailable", "The service cannot look up this API key right now. Try again in a moment.", { cause });
  }
}

/**
 * Waits until a network may look for a text. Returns the counters of the network in this second. At first, 20 look-ups run at the same time, and one more for
 * each key that they find. The first requests of many customers can come from one network, for example from a proxy. Throws if 20 look-ups have found nothing.
 */
async function beginLookUp(ip: string): Promise<Looked> {
  const network = ip === "" ? "" : networkOf(ip);
  for (
    const startedAt = Date.now();
    Math.abs(Date.now() - startedAt) < timeoutMs;
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  ) {
    const second = Math.floor(Date.now() / secondMs);
    // A look-up whose request was interrupted is forgotten with its second.
    if (looked.second !== second) looked = { second, ofNetwork: new Map() };
    const own = looked.ofNetwork.get(network) ?? { running: 0, found: 0, missed: 0 };
    if (network !== "" && own.missed >= maxMissesPerSecond)
      throw new Failure("too_many_unknown_keys", "Too many keys that do not exist came from your IP address. Try again in a moment.", {
        headers: { "Retry-After": "1" },
      });
    if (network !== "" && own.running + own.missed >= maxMissesPerSecond + own.found) continue;
    own.running++;
    looked.ofNetwork.set(network, own);
    return own;
  }
  throw new Error("the look-ups of this network take too long");
}

async function lookUpAll(db: Db, secrets: ImportSecrets, texts: readonly string[]): Promise<(FoundKey | null)[]> {
  const candidates = texts.map((text) => candidatesOf(text, secrets, forms?.inUse));
  const rows = await db.all<{ algorithm: string; digest: string; key_id: string; strip: Strip; prefix: string }>(
    sql`SELECT imported_secrets.algorithm, imported_secrets.digest, key_id, strip, prefix
      FROM json_each(${JSON.stringify(candidates.flat().map(({ algorithm, digest }) => [algorithm, digest]))}) AS candidate
      CROSS JOIN imported_secrets ON imported_secrets.algorithm = candidate.value ->> 0 AND imported_secrets.digest = candidate.value ->> 1`,
  );
  const stored = Map.groupBy(rows, importedHashOf);
  return candidates.map((ofText) => {
    for (const candidate of ofText) {
      const secretHash = importedHashOf(candidate);
      const row = stored.get(secretHash)?.find((each) => isStoredAs(candidate, each));
      if (row) return { keyId: row.key_id, secretHash };
    }
    return null;
  });
}
