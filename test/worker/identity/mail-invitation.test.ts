import { Webhook } from "standardwebhooks";
import { afterEach, expect, it, vi } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { type InvitationMail, mailInvitation, maxMailed } from "../../../src/identity/mail-invitation.ts";
import { settings } from "../../../src/lib/settings.ts";
import { textOf } from "../support/browse.ts";
import { db, makeTenant } from "../support/client.ts";
import { makePerson, type Person } from "../support/people.ts";
import { newPath, receivedAt, receiver, waitForRequest } from "../support/receiver.ts";

afterEach(() => void Object.assign(settings.portal, { mailUrl: "" }));

const setMailUrl = (mailUrl: string) => Object.assign(settings.portal, { mailUrl });
const invite = ({ post }: Person, email: string) => post("/settings/invitations", { email, role: "viewer" });
const makeOwner = async () => makePerson((await makeTenant()).accountId);

it("An invitation is posted to mail_url as a ready message, and the page does not show its link", async () => {
  const path = newPath();
  setMailUrl(receiver + path);
  const owner = await makeOwner();
  const page = await invite(owner, "grace@globex.dev");
  expect([page.status, page.text.includes("/setup#")]).toEqual([200, false]);
  expect(textOf(page)).toContain("The invitation was mailed to grace@globex.dev.");
  const { body } = await waitForRequest(path);
  const message = JSON.parse(body);
  expect(message).toEqual({
    to: "grace@globex.dev",
    subject: `${owner.member.name} invites you to Tenant at Developer Overview`,
    text: expect.stringContaining(message.invitation.url),
    invitation: {
      id: expect.stringMatching(/^inv_/),
      role: "viewer",
      account_id: owner.member.accountId,
      url: expect.stringMatching(/^https:\/\/overview\.acme\.dev\/setup#[\w-]{43}$/),
      expires_at: expect.any(String),
    },
  });
});

it("If the mail service refuses an invitation, the page says so and shows the link", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  setMailUrl(`${receiver}${newPath("fail")}`);
  const page = await invite(await makeOwner(), "grace@globex.dev");
  expect(textOf(page)).toContain("The invitation was not mailed: the mail service did not accept it.");
  expect(page.text).toContain("/setup#");
  setMailUrl("http://127.0.0.1:9/");
  expect((await invite(await makeOwner(), "grace@globex.dev")).text).toContain("/setup#");
});

it(`An account sends at most ${maxMailed} invitations by mail in 24 hours`, async () => {
  const path = newPath();
  setMailUrl(receiver + path);
  const owner = await makeOwner();
  for (let n = 0; n < maxMailed; n++) await invite(owner, `person-${n}@globex.dev`);
  expect((await receivedAt(path)).length).toBe(maxMailed);
  expect(textOf(await invite(owner, "one-more@globex.dev"))).toContain(`this account has sent ${maxMailed} invitations in 24 hours`);
  expect((await receivedAt(path)).length).toBe(maxMailed);
});

it("With a secret, the message is signed as a webhook is", async () => {
  const path = newPath();
  const secret = `whsec_${Buffer.from("a secret of the tests, 32 bytes.").toString("base64")}`;
  const { accountId } = await makeTenant();
  const invitation = {
    id: "inv_1",
    email: "grace@globex.dev",
    role: "viewer",
    accountId,
    expiresAt: Date.now(),
  } as InvitationMail["invitation"];
  const mail = { invitation, url: "https://overview.acme.dev/setup#x", team: "Acme", account: "Globex", inviter: "Ada" };
  expect(await mailInvitation({ db, actor: operatorOn(accountId), now: Date.now() }, receiver + path, mail, secret)).toBeNull();
  const { body, headers } = await waitForRequest(path);
  expect(() => new Webhook(secret).verify(body, headers as Record<string, string>)).not.toThrow();
});
