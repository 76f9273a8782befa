import type { D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { makeTenant } from "../support/client.ts";
import { makePerson } from "../support/people.ts";

// What the migration of members does to rows from before it.

const { MIGRATIONS } = env as unknown as { MIGRATIONS: { DB: D1Migration[] } };
const changes =
  MIGRATIONS.DB.find(({ name }) => name.endsWith("_members.sql"))?.queries.filter((query) => /^(?:UPDATE|DELETE) /m.test(query)) ?? [];

it("Members from before are found by the ASCII case of their address alone, and invitations of removed ones have ended", async () => {
  const { accountId } = await makeTenant();
  const [owner, kelvin, accent, gone] = [
    await makePerson(accountId),
    await makePerson(accountId, "viewer"),
    await makePerson(accountId, "viewer"),
    await makePerson(accountId, "viewer"),
  ];
  const domain = `${crypto.randomUUID()}.Example`;
  const addresses: [string, string][] = [
    [kelvin.member.id, `\u212aate@${domain}`],
    [accent.member.id, `\u00c9va@${domain}`],
    [gone.member.id, `Gone@${domain}`],
  ];
  // As they were kept before: all letters in lower case.
  for (const [id, email] of addresses)
    await env.DB.prepare("UPDATE members SET email = ?, email_key = ? WHERE id = ?").bind(email, email.toLowerCase(), id).run();
  for (const email of [`gone@${domain}`, `stays@${domain}`]) await owner.post("/settings/invitations", { email, role: "viewer" });
  await env.DB.prepare("UPDATE members SET removed_at = ? WHERE id = ?").bind(Date.now(), gone.member.id).run();
  expect(changes).toHaveLength(2);
  for (const change of changes) await env.DB.prepare(change).run();
  const keyOf = (id: string) => env.DB.prepare("SELECT email_key FROM members WHERE id = ?").bind(id).first("email_key");
  const end = domain.toLowerCase();
  expect([await keyOf(kelvin.member.id), await keyOf(accent.member.id)]).toEqual([`\u212aate@${end}`, `\u00c9va@${end}`]);
  const { results } = await env.DB.prepare("SELECT email FROM invitations WHERE account_id = ? AND used_by IS NULL").bind(accountId).all();
  expect(results).toEqual([{ email: `stays@${domain}` }]);
});
