import { Hono } from "hono";
import { z } from "zod";
import { accessConfig } from "../../../identity/access.ts";
import { invite, withdrawInvitation } from "../../../identity/invitations.ts";
import { mailInvitation } from "../../../identity/mail-invitation.ts";
import { changeRole, readMember } from "../../../identity/member.ts";
import { listInvitations } from "../../../identity/open-invitations.ts";
import { mayManage, roles } from "../../../identity/roles.ts";
import { Failure } from "../../../lib/errors/failure.ts";
import { settings, shownName, teamName } from "../../../lib/settings.ts";
import { needs } from "../../access/needs.ts";
import { showForbidden } from "../../access/permissions.tsx";
import { relyingParty } from "../../access/relying-party.ts";
import { ButtonLink } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { CopyButton } from "../../components/secret.tsx";
import { idOf, type PageEnv, roleOf } from "../../context.ts";
import { runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, parseInput, readForm } from "../../forms.ts";
import { memberEmail } from "../../member-email.ts";
import { contextOf } from "../../operation-contexts.ts";
import { backToSettings, showSettings } from "./page.tsx";

const NewInvitation = z.object({
  email: memberEmail,
  role: z.enum(roles, { error: `Must be one of ${roles.join(", ")}.` }).default("viewer"),
});

/** The forms that invite members, withdraw invitations and change roles. */
export const memberPages = new Hono<PageEnv>();

memberPages.post("/settings/invitations", needs("members", "always"), async (c) => {
  const form = await readForm(c);
  const parsed = parseInput(NewInvitation, { email: form.text("email"), role: form.optional("role") });
  if ("formError" in parsed) return showSettings(c, { form, formError: parsed.formError });
  if (!mayManage(roleOf(c.get("visitor")), parsed.input.role)) return showForbidden(c, "owners");
  const made = await attempt(() => runFormIdempotently(c, form, (commit) => invite(contextOf(c, commit), parsed.input)));
  if ("formError" in made) return showSettings(c, { form, formError: made.formError });
  if ("repeated" in made.result) return backToSettings(c, "invited-before");
  const { invitation, token } = made.result.result;
  const { origin } = relyingParty(c);
  const isByAccess = accessConfig(c.env) !== null;
  const url = isByAccess ? `${origin}/access` : `${origin}/setup#${token}`;
  const { account, signedIn } = c.get("visitor");
  const mail = { invitation, url, team: shownName, account: account.name, inviter: signedIn?.member.name ?? teamName };
  const { mailUrl } = settings.portal;
  const notMailed =
    mailUrl === "" ? "" : await mailInvitation(contextOf(c), mailUrl, mail, (c.env as { MAIL_SECRET?: string }).MAIL_SECRET);
  return showPage(
    c,
    { title: "Invited", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      {notMailed && <p role="alert">The invitation was not mailed: {notMailed}.</p>}
      {notMailed === null ? (
        <p role="status">
          The invitation was mailed to {invitation.email}. It works once, and expires after seven days. To send it again, withdraw it, and
          create another one.
        </p>
      ) : isByAccess ? (
        <p role="status">
          {invitation.email} can join within seven days with the role {invitation.role}. To join, this person must open {url}, and sign in
          to Cloudflare Access with this email address.
        </p>
      ) : (
        <>
          <p role="status">
            Send this link to {invitation.email}. The link creates one member with the role {invitation.role}, works only once, and expires
            after seven days.
          </p>
          <section class="secret-text" id="link" aria-label="Invitation link">
            {url}
          </section>
          <CopyButton of="#link" />
          <p class="quiet">
            The link is shown only this once. If you lose the link, withdraw the invitation and create another invitation.
          </p>
        </>
      )}
      <p>
        <ButtonLink href="/settings">Back to the settings</ButtonLink>
      </p>
    </section>,
  );
});

memberPages.post("/settings/invitations/:id/withdraw", needs("members", "always"), async (c) => {
  const invitation = (await listInvitations(contextOf(c))).find(({ id }) => id === idOf(c));
  if (!invitation) throw new Failure("not_found", "There is no such invitation.");
  if (!mayManage(roleOf(c.get("visitor")), invitation.role)) return showForbidden(c, "owners");
  await withdrawInvitation(contextOf(c), invitation.id);
  return backToSettings(c, "withdrawn");
});

memberPages.post("/settings/members/:id/role", needs("members", "always"), async (c) => {
  const form = await readForm(c);
  const own = roleOf(c.get("visitor"));
  const member = await readMember(contextOf(c), idOf(c));
  if (member.externalId !== null) throw new Failure("conflict", "The app from which this member comes gives the role, each time.");
  const role = roles.find((each) => each === form.text("role"));
  if (role === undefined || !mayManage(own, member.role) || !mayManage(own, role)) return showForbidden(c, "owners");
  const changed = await attempt(() => changeRole(contextOf(c), member, role));
  return "formError" in changed ? showSettings(c, { formError: changed.formError }) : backToSettings(c, "role");
});
