import { Hono } from "hono";
import { connect } from "../../../db/client.ts";
import { listMembers, storeZone } from "../../../identity/member.ts";
import { listInvitations } from "../../../identity/open-invitations.ts";
import { listPasskeys } from "../../../identity/passkeys.ts";
import { countRecoveryCodes } from "../../../identity/recovery-codes.ts";
import { mayManage, roles } from "../../../identity/roles.ts";
import { listSessions } from "../../../identity/sessions.ts";
import { teamName } from "../../../lib/settings.ts";
import { needs } from "../../access/needs.ts";
import { visitorMay } from "../../access/permissions.tsx";
import { Fact } from "../../components/fact.tsx";
import { Action, Options, Submit, TextField } from "../../components/fields.tsx";
import { PageScript, showPage } from "../../components/layout.tsx";
import { MemberTable } from "../../components/members.tsx";
import { Alert, Done, Empty } from "../../components/notice.tsx";
import { SettingsTabs } from "../../components/settings-tabs.tsx";
import { SessionsPanel, SignInPanel } from "../../components/sign-in-panels.tsx";
import { Ahead, Moment } from "../../components/time.tsx";
import { type PageContext, type PageEnv, returnUrlOf, roleOf, type Visitor } from "../../context.ts";
import { newNonce } from "../../form-idempotency.ts";
import { integer } from "../../format.ts";
import { Form, ownValue, readForm, type Sent } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { isTheme, isZone, pathWithin, remember } from "../../preferences.ts";

const outcomes: Record<string, string> = {
  removed: "The member was removed, and their sessions have ended.",
  "removed-with-keys": "The member was removed, and their sessions have ended. The keys that you ticked are revoked.",
  "keys-revoked": "The keys that you ticked are revoked.",
  role: "The role was changed, and applies from the next page on. Invitations that the new role may not send have ended. Keys that this member created keep their scopes, and webhooks that this member created keep sending. Review the keys and webhooks under API Keys and Webhooks.",
  "invited-before":
    "This form was already sent, and the link was shown then. If you lost the link, withdraw the invitation and create another invitation.",
  withdrawn: "The invitation was withdrawn, and its link no longer works.",
  ended: "The session has ended. The browser of this session must sign in again.",
  "others-ended": "Your other sessions have ended. Their browsers must sign in again.",
  "passkey-added": "The passkey was added. You can sign in with this passkey from now on.",
  "passkey-removed": "The passkey was removed. You can no longer sign in with this passkey, and the sessions that used it have ended.",
  confirmed: "Confirmed. You will not be asked again for ten minutes, so continue with your task.",
};

/** Redirects to the settings page. The page shows the message for `done`. */
export const backToSettings = (c: PageContext, done: string) => c.redirect(`/settings?done=${done}`, 303);

export const settingsPages = new Hono<PageEnv>();

settingsPages.get("/settings", needs("session"), (c) => showSettings(c));

/** Responds with the settings page. `formError` holds the reasons why a submitted form was rejected. */
export async function showSettings(c: PageContext, { form = new Form(), formError }: Sent = {}) {
  const context = contextOf(c);
  const { now } = context;
  const { account, signedIn } = c.get("visitor");
  const [members, invitations, sessions, passkeys, codesLeft] = await Promise.all([
    listMembers(context),
    listInvitations(context),
    signedIn ? listSessions(context, signedIn.member) : [],
    signedIn ? listPasskeys(context.db, signedIn.member.id) : [],
    signedIn ? countRecoveryCodes(context.db, signedIn.member.id) : 0,
  ]);
  // A viewer manages nobody.
  const own = visitorMay(c, "members") ? roleOf(c.get("visitor")) : "viewer";
  const isOfPortal = returnUrlOf(c.get("visitor")) !== null;
  const given = roles.filter((role) => mayManage(own, role));
  const outcome = ownValue(outcomes, c.req.query("done") ?? "");
  /** The id of a former member whose keys are not all revoked. */
  const [left] = /^mem_\w+$/.exec(c.req.query("left") ?? "") ?? [];
  return showPage(
    c,
    {
      title: "Settings",
      section: "Settings",
      status: formError ? 422 : 200,
    },
    <>
      {outcome && (
        <Done>
          {outcome}
          {left && (
            <>
              {" "}
              Some keys that this member created or rotated are not revoked.{" "}
              <a href={`/settings/members/${left}/remove`}>Show these keys</a>
            </>
          )}
        </Done>
      )}
      <Alert formError={formError} />
      <SettingsTabs visitor={c.get("visitor")} here="Members" />
      <section class="panel" aria-labelledby="members">
        <h2 id="members">Members</h2>
        {members.length === 0 ? (
          <Empty>
            No sign-in is needed, because the overview is open on this machine. To invite members, start it with{" "}
            <code class="unbroken">--sign-in</code>.
          </Empty>
        ) : (
          <MemberTable members={members} c={c} own={own} now={now} />
        )}
        {invitations.length > 0 && (
          <>
            <h3>Invited</h3>
            <ul class="lines">
              {invitations.map((each) => (
                <li>
                  <span class="break">{each.email}</span> <span class="quiet">{each.role}</span>
                  <span class="quiet">
                    by <bdi>{each.invitedByName ?? teamName}</bdi>, the link expires <Ahead timeMs={each.expiresAt} now={now} />
                  </span>
                  {mayManage(own, each.role) && <Action action={`/settings/invitations/${each.id}/withdraw`}>Withdraw</Action>}
                </li>
              ))}
            </ul>
          </>
        )}
        {given.length > 0 && signedIn && (
          <form class="form" method="post" action="/settings/invitations">
            <input type="hidden" name="nonce" value={newNonce()} />
            <h3>Invite a member</h3>
            <TextField form={form} formError={formError} name="email" label="Email address" type="email" required maxlength={254} />
            <div class="field">
              <label for="role">Role</label>
              <select id="role" name="role" aria-describedby="role-help">
                <Options of={given} chosen={form.optional("role") ?? "viewer"} />
              </select>
              <p class="help" id="role-help">
                Viewers see everything except secrets and the audit log. Developers also manage keys and webhooks. Admins also invite
                viewers and developers, end their sessions and read the audit log. Owners do everything.
              </p>
            </div>
            <Submit>Invite</Submit>
          </form>
        )}
      </section>
      {signedIn && (
        <>
          <SessionsPanel sessions={sessions} signedIn={signedIn} now={now} />
          {!isOfPortal && <SignInPanel passkeys={passkeys} codesLeft={codesLeft} now={now} />}
        </>
      )}
      <section class="panel" aria-labelledby="account-facts">
        <header>
          <h2 id="account-facts">The account</h2>
          {signedIn?.session === null && <a href="/access">Your accounts and invitations</a>}
        </header>
        <dl class="facts">
          <Fact name="Name">
            <bdi>{account.name}</bdi>
          </Fact>
          <Fact name="Email">{account.email}</Fact>
          <Fact name="Id">
            <code>{account.id}</code>
          </Fact>
          <Fact name="Maximum limit">
            {integer(account.limitCeiling)} requests an hour per key. Ask {teamName} to change this limit.
          </Fact>
          <Fact name="Created">
            <Moment timeMs={account.createdAt} />
          </Fact>
        </dl>
      </section>
      {signedIn && <PageScript name="passkeys" c={c} />}
    </>,
  );
}

/** Stores the theme and the time zone in cookies, and the time zone of a member with the member. Both settings work without JavaScript. */
settingsPages.post("/preferences", needs("public"), async (c) => {
  const form = await readForm(c);
  const [theme, zone] = [form.text("theme"), form.text("zone")];
  if (isTheme(theme)) remember(c, "theme", theme);
  if (isZone(zone)) {
    remember(c, "zone", zone);
    const { signedIn = null } = (c.get("visitor") as Visitor | undefined) ?? {};
    if (signedIn) await storeZone(connect(c.env.DB), signedIn.member.id, zone);
  }
  return c.redirect(pathWithin(form.text("return_to")), 303);
});
