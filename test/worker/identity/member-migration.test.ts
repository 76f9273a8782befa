import type { D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { makeTenant } from "../support/client.ts";
import { markMemberRemoved, readEmailKey, readRecipientsOfOpenInvitations, setMemberEmail } from "../support/member-rows.ts";
import { makePerson } from "../support/people.ts";

const { MIGRATIONS } = env as unknown as { MIGRATIONS: { DB: D1Migration[] } };
/** The statements of the migration `_members.sql` that update or delete existing rows. */
const statements =
  MIGRATIONS.DB.find(({ name }) => name.endsWith("_members.sql"))?.queries.filter((query) => /^(?:UPDATE|DELETE) /m.test(query)) ?? [];

async function runMigrationAgain() {
  for (const statement of statements) await env.DB.prepare(statement).run();
}

it("The members migration lowercases only ASCII letters of email keys, and deletes invitations to removed members", async () => {
  const { accountId } = await makeTenant();
  const [owner, withKelvinSign, withAccent, removed] = [
    await makePerson(accountId),
    await makePerson(accountId, "viewer"),
    await makePerson(accountId, "viewer"),
    await makePerson(accountId, "viewer"),
  ];
  const domain = `${crypto.randomUUID()}.Example`;
  const addresses: [string, string][] = [
    [withKelvinSign.member.id, `\u212aate@${domain}`],
    [withAccent.member.id, `\u00c9va@${domain}`],
    [removed.member.id, `Gone@${domain}`],
  ];
  // Before the migration, the app converted all letters of an email key to lowercase, not only the ASCII letters.
  for (const [id, email] of addresses) await setMemberEmail(id, email, email.toLowerCase());
  for (const email of [`gone@${domain}`, `stays@${domain}`]) await owner.post("/settings/invitations", { email, role: "viewer" });
  await markMemberRemoved(removed.member.id);
  expect(statements).toHaveLength(2);
  await runMigrationAgain();
  const lowerDomain = domain.toLowerCase();
  expect([await readEmailKey(withKelvinSign.member.id), await readEmailKey(withAccent.member.id)]).toEqual([
    `\u212aate@${lowerDomain}`,
    `\u00c9va@${lowerDomain}`,
  ]);
  expect(await readRecipientsOfOpenInvitations(accountId)).toEqual([`stays@${domain}`]);
});
