import { env } from "cloudflare:workers";
import { labelled } from "./browse.ts";
import { type Answer, makeKey, makeTenant } from "./client.ts";
import { makePerson, type Person } from "./people.ts";
import { tryKey } from "./try-key.ts";

// Helpers for tests that remove a member. The helpers create teams and submit the form of the removal page.

type Page = Pick<Answer, "text">;

/** Returns the new secret key that a page shows, or an empty string. */
export const secretKeyIn = ({ text }: Page) => labelled(text, "Secret key") ?? "";
export const keyIdOf = (secretKey: string) => `key_${secretKey.split("_")[1]}`;
export const removalPathOf = ({ member }: Person) => `/settings/members/${member.id}/remove`;

/** Returns the ids of the keys that a removal page lists with a ticked checkbox, sorted. */
export const keyIdsIn = ({ text }: Page) =>
  [...text.matchAll(/name="revoke" value="(key_\w+)" checked/g)].map(([, id = ""]) => id).toSorted();

/** Whether the API accepts a secret key. */
export const isAccepted = async (secretKey: string) => (await tryKey(secretKey)) === 200;

/** Sends the form on the removal page of a member, with these keys ticked. */
export const removeMember = (remover: Person, removed: Person, revokedKeyIds: readonly string[] = [], bindings = env) =>
  remover.post(removalPathOf(removed), { revoke: revokedKeyIds }, {}, bindings);

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
