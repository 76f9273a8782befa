import { hidden, labelled } from "./browse.ts";
import { call, makeKey, makeTenant } from "./client.ts";
import { makePerson, type Person } from "./people.ts";

// The removal of a member: a team that has one to remove, and the form of its page.

export const secretOf = ({ text }: { text: string }) => labelled(text, "Secret key") ?? "";
export const idOf = (secret: string) => `key_${secret.split("_")[1]}`;
export const pathOf = ({ member }: Person) => `/settings/people/${member.id}/remove`;

/** The keys that may be ticked on a page. */
export const offered = ({ text }: { text: string }) =>
  [...text.matchAll(/name="revoke" value="(key_\w+)"/g)].map(([, id]) => id).toSorted();
export const works = async (secret: string) => (await call("GET", "/api/v1/me", { key: secret })).status === 200;

/** What the form of the page sends, with none of its boxes ticked. */
export const formOf = ({ text }: { text: string }) => ({
  listed: hidden(text, "listed"),
  shown: [...text.matchAll(/name="shown" value="([\w.]+)"/g)].map(([, shown = ""]) => shown),
  shown_webhook: [...text.matchAll(/name="shown_webhook" value="([\w.]+)"/g)].map(([, shown = ""]) => shown),
});

/** Removes a member as the page asks for it, with the keys that it shows. */
export const remove = async (by: Person, who: Person, revoke: readonly string[] = []) => {
  return by.post(pathOf(who), { ...formOf(await by.get(pathOf(who))), revoke });
};

/** An owner, an admin, and a key with every scope. */
export async function makeAdminWithKey() {
  const { accountId, key } = await makeTenant();
  return { key, owner: await makePerson(accountId), leaver: await makePerson(accountId, "admin") };
}

/** An owner and a developer who made one key, rotated another, and has revoked a third. */
export async function makeTeam() {
  const { accountId, key } = await makeTenant();
  const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, "developer")];
  const made = secretOf(await leaver.post("/keys", { name: "Made by the leaver", scopes: "tasks:read" }));
  const kept = secretOf(await leaver.post("/keys", { name: "Made too", scopes: "tasks:read" }));
  const gone = secretOf(await leaver.post("/keys", { name: "Made and revoked", scopes: "tasks:read" }));
  await leaver.post(`/keys/${idOf(gone)}/revoke`);
  const others = await makeKey(accountId, { name: "Rotated", scopes: ["tasks:read"] });
  const rotated = secretOf(await leaver.post(`/keys/${others.keyId}/rotate`, { overlap_seconds: "0" }));
  return { accountId, key, owner, leaver, made, kept, rotated };
}
