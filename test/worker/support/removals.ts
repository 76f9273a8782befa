import { expect, vi } from "vitest";
import { hidden, labelled } from "./browse.ts";
import { type Answer, makeKey, makeTenant } from "./client.ts";
import { makePerson, type Person } from "./people.ts";
import { tryKey } from "./try-key.ts";

// Helpers for tests that remove a member. The helpers create teams and submit the form of the removal page.

type Page = Pick<Answer, "text">;

/** Returns the new secret key that a page shows, or an empty string. */
export const secretKeyIn = ({ text }: Page) => labelled(text, "Secret key") ?? "";
export const keyIdOf = (secretKey: string) => `key_${secretKey.split("_")[1]}`;
export const removalPathOf = ({ member }: Person) => `/settings/members/${member.id}/remove`;

/** Returns the ids of the keys that a removal page lists, sorted. */
export const keyIdsIn = ({ text }: Page) => [...text.matchAll(/name="revoke" value="(key_\w+)"/g)].map(([, id]) => id).toSorted();

/** Whether the API accepts a secret key. */
export const isAccepted = async (secretKey: string) => (await tryKey(secretKey)) === 200;

/** Waits until the API rejects a secret key because the key has expired. */
export const waitUntilExpired = (secretKey: string) =>
  vi.waitFor(async () => expect(await tryKey(secretKey)).toBe("expired_key"), { timeout: 5000, interval: 40 });

/** Returns the fields of the form on a removal page. The form selects no key. */
export const removalFormIn = ({ text }: Page) => ({
  listed: hidden(text, "listed"),
  shown: [...text.matchAll(/name="shown" value="([\w.]+)"/g)].map(([, version = ""]) => version),
  shown_webhook: [...text.matchAll(/name="shown_webhook" value="([\w.]+)"/g)].map(([, version = ""]) => version),
});

/** Removes a member with the form on the member's removal page. */
export const removeMember = async (remover: Person, removed: Person, revokedKeyIds: readonly string[] = []) => {
  const path = removalPathOf(removed);
  return remover.post(path, { ...removalFormIn(await remover.get(path)), revoke: revokedKeyIds });
};

/** Creates a key on the keys page. Returns its secret key. */
export const createKeyAs = async ({ post }: Person, name: string, scopes: string | readonly string[] = "tasks:read") =>
  secretKeyIn(await post("/keys", { name, scopes }));

/** Creates an account with an owner, an admin who will be removed, and a key with every scope. */
export async function makeAdminWithKey() {
  const { accountId, key } = await makeTenant();
  return { accountId, key, owner: await makePerson(accountId), leaver: await makePerson(accountId, "admin") };
}

/**
 * Creates an account with an owner, a developer who will be removed, and a key with every scope. The developer has created `firstKey` and
 * `secondKey`, rotated `rotatedKey`, and revoked another key.
 */
export async function makeTeam() {
  const { accountId, key } = await makeTenant();
  const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, "developer")];
  const firstKey = await createKeyAs(leaver, "Created by the leaver");
  const secondKey = await createKeyAs(leaver, "Also created");
  const revokedKey = await createKeyAs(leaver, "Created and revoked");
  await leaver.post(`/keys/${keyIdOf(revokedKey)}/revoke`);
  const { keyId } = await makeKey(accountId, { name: "Rotated", scopes: ["tasks:read"] });
  const rotatedKey = secretKeyIn(await leaver.post(`/keys/${keyId}/rotate`, { overlap_seconds: "0" }));
  return { accountId, key, owner, leaver, firstKey, secondKey, rotatedKey };
}
