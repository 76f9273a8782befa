import { Hono } from "hono";
import { removeSampleData } from "../../accounts/sample-data.ts";
import { always } from "../../db/optimistic-locking.ts";
import { Failure } from "../../errors.ts";
import { commitTo, type Writing } from "../../events/commit.ts";
import { email as emailInput, text } from "../../http/inputs/values.ts";
import { invite, withdrawInvitation } from "../../identity/invitations.ts";
import { changeRole, listInvitations, listMembers, type Member, readMember, removeMember } from "../../identity/member.ts";
import { addPasskey, listPasskeys, type Passkey, registrationOptions, removePasskey, verifyRegistration } from "../../identity/passkeys.ts";
import { countRecoveryCodes, replaceRecoveryCodes } from "../../identity/recovery-codes.ts";
import { mayManage, type Role, roles } from "../../identity/roles.ts";
import { endSession, listSessions, type Session, type SignedIn } from "../../identity/sessions.ts";
import { type KeyPosition, listKeys } from "../../keys/read-keys.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { keyWriting, outbox, reading, upToDate } from "../acting.ts";
import { Action, TextField } from "../components/fields.tsx";
import { PageScript, showPage } from "../components/layout.tsx";
import { Alert, Done, Empty } from "../components/notice.tsx";
import { RecoveryCodes } from "../components/recovery-codes.tsx";
import { CopyButton } from "../components/secret.tsx";
import { Age, Ahead, Moment } from "../components/time.tsx";
import { type PageContext, type PageEnv, roleOf } from "../context.ts";
import { integer } from "../format.ts";
import { attempt, Form, type Refused, readForm } from "../forms.ts";
import { newNonce, runOnce } from "../once.ts";
import { showForbidden, visitorMay } from "../permissions.tsx";
import { isTheme, isZone, pathWithin, remember } from "../preferences.ts";
import { relyingParty } from "../relying-party.ts";
import { clearSession } from "../session-cookie.ts";

const outcomes: Record<string, string> = {
  removed: "Removed. Their sessions have ended.",
  role: "The role was changed. It holds from the next page on.",
  "invited-before": "This form was sent before: the link was shown that once. If it is lost, withdraw the invitation and make another.",
  withdrawn: "Withdrawn. The link does not work any more.",
  ended: "Ended. Whoever had it must sign in again.",
  "passkey-added": "Added. It signs you in from now on.",
  "passkey-removed": "Removed. It does not sign you in any more.",
  "sample-removed": "Removed. What you see from now on is your own.",
  confirmed: "Confirmed. For ten minutes you are not asked again: go on with what you wanted to do.",
};

const writing = (c: PageContext): Writing => ({ ...reading(c), commit: commitTo(outbox(c)) });
const mostKeys = 100;
const idOf = (c: PageContext) => c.req.param("id") ?? "";
const back = (c: PageContext, done: string) => c.redirect(`/settings?done=${done}`, 303);

export const settingsPages = new Hono<PageEnv>();

settingsPages.get("/settings", (c) => showSettings(c));

async function showSettings(c: PageContext, { form = new Form(), refused }: { form?: Form; refused?: Refused } = {}) {
  const asking = reading(c);
  const { now } = asking;
  const { account, signedIn } = c.get("visitor");
  const [members, invitations, sessions, passkeys, codesLeft] = await Promise.all([
    listMembers(asking),
    listInvitations(asking),
    listSessions(asking, visitorMay(c, "sessions") ? undefined : signedIn?.member.id),
    signedIn ? listPasskeys(asking.db, signedIn.member.id) : [],
    signedIn ? countRecoveryCodes(asking.db, signedIn.member.id) : 0,
  ]);
  const own = roleOf(c.get("visitor"));
  const given = roles.filter((role) => mayManage(own, role));
  const outcome = outcomes[c.req.query("done") ?? ""];
  return showPage(
    c,
    {
      title: "Settings",
      section: "Settings",
      status: refused ? 422 : 200,
      action: visitorMay(c, "audit") && (
        <a class="button" href="/settings/audit">
          Audit log
        </a>
      ),
    },
    <>
      {outcome && <Done>{outcome}</Done>}
      <Alert refused={refused} />
      <section class="panel" aria-labelledby="people">
        <h2 id="people">People</h2>
        {members.length === 0 ? (
          <Empty>Nobody signs in yet: on this machine the overview is open. Deployed, it asks for a passkey.</Empty>
        ) : (
          <People members={members} c={c} own={own} now={now} />
        )}
        {invitations.length > 0 && (
          <>
            <h3>Invited</h3>
            <ul class="lines">
              {invitations.map((each) => (
                <li>
                  <span class="break">{each.email}</span> <span class="quiet">{each.role}</span>
                  <span class="quiet">
                    the link ends <Ahead timeMs={each.expiresAt} now={now} />
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
            <h3>Invite somebody</h3>
            <TextField form={form} refused={refused} name="email" label="Email address" type="email" required maxlength={254} />
            <div class="field">
              <label for="role">Role</label>
              <select id="role" name="role" aria-describedby="role-help">
                {given.map((role) => (
                  <option value={role} selected={role === (form.optional("role") ?? "developer")}>
                    {role}
                  </option>
                ))}
              </select>
              <p class="help" id="role-help">
                Viewers look at everything but secrets. Developers also manage keys and webhooks. Admins also invite viewers and developers,
                end sessions and read the audit log. Owners do everything.
              </p>
            </div>
            <button class="main" type="submit">
              Invite
            </button>
          </form>
        )}
      </section>
      {signedIn && (
        <>
          <SessionsPanel sessions={sessions} signedIn={signedIn} now={now} />
          <SignInPanel passkeys={passkeys} codesLeft={codesLeft} now={now} />
        </>
      )}
      <section class="panel" aria-labelledby="account-facts">
        <h2 id="account-facts">The account</h2>
        <dl class="facts">
          <dt>Name</dt>
          <dd>
            <bdi>{account.name}</bdi>
          </dd>
          <dt>Email</dt>
          <dd>{account.email}</dd>
          <dt>Id</dt>
          <dd>
            <code>{account.id}</code>
          </dd>
          <dt>Ceiling</dt>
          <dd>{integer(account.limitCeiling)} requests an hour for each key; the operator may change it</dd>
          <dt>Made</dt>
          <dd>
            <Moment timeMs={account.createdAt} />
          </dd>
        </dl>
      </section>
      {account.sampleUntil !== null && visitorMay(c, "account") && (
        <section class="panel" aria-labelledby="sample">
          <h2 id="sample">Sample data</h2>
          <p>
            People, tasks, requests, figures and keys from before <Moment timeMs={account.sampleUntil} /> are made up. Removing them leaves
            what has come since, and the demo key.
          </p>
          <p class="buttons">
            <a class="button danger" href="/settings/sample-data">
              Remove sample data
            </a>
          </p>
        </section>
      )}
      {signedIn && <PageScript name="passkeys" c={c} />}
    </>,
  );
}

const People = ({ members, c, own, now }: { members: readonly Member[]; c: PageContext; own: Role; now: number }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Name</th>
        <th scope="col">Email</th>
        <th scope="col">Role</th>
        <th scope="col">Last seen</th>
        <th scope="col">
          <span class="unseen">Actions</span>
        </th>
      </tr>
    </thead>
    <tbody>
      {members.map((member) => (
        <tr>
          <th scope="row" class="name">
            <bdi>{member.name}</bdi>
            {member.id === c.get("visitor").signedIn?.member.id && <span class="quiet"> (you)</span>}
          </th>
          <td class="break">{member.email}</td>
          <td>{member.role}</td>
          <td data-label="Last seen">{member.lastSeenAt === null ? "never" : <Age timeMs={member.lastSeenAt} now={now} />}</td>
          <td>
            {mayManage(own, member.role) && (
              <div class="buttons">
                <form class="inline" method="post" action={`/settings/people/${member.id}/role`}>
                  <label class="unseen" for={`role-${member.id}`}>
                    Role of {member.name}
                  </label>
                  <select id={`role-${member.id}`} name="role">
                    {roles
                      .filter((role) => mayManage(own, role))
                      .map((role) => (
                        <option value={role} selected={role === member.role}>
                          {role}
                        </option>
                      ))}
                  </select>
                  <button type="submit">Change role</button>
                </form>
                <Action action={`/settings/people/${member.id}/remove`} kind="danger">
                  Remove
                </Action>
              </div>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);

const SessionsPanel = ({
  sessions,
  signedIn,
  now,
}: {
  sessions: readonly { session: Session; member: Member }[];
  signedIn: SignedIn;
  now: number;
}) => (
  <section class="panel" aria-labelledby="sessions">
    <h2 id="sessions">Sessions</h2>
    <ul class="lines">
      {sessions.map(({ session, member }) => (
        <li>
          <bdi>{member.name}</bdi>
          {session.id === signedIn.session?.id && <strong>this one</strong>}
          <span class="quiet break">
            <bdi>{session.userAgent ?? "an unknown browser"}</bdi>
          </span>
          <span class="quiet">
            {[session.ip, session.country].filter(Boolean).join(", ")} seen <Age timeMs={session.lastSeenAt} now={now} />
          </span>
          <Action action={`/settings/sessions/${session.id}/end`}>End session</Action>
        </li>
      ))}
    </ul>
    <p class="quiet">A session ends after twelve hours without a page, and after fourteen days.</p>
  </section>
);

const SignInPanel = ({ passkeys, codesLeft, now }: { passkeys: readonly Passkey[]; codesLeft: number; now: number }) => (
  <section class="panel" aria-labelledby="sign-in">
    <h2 id="sign-in">Your sign-in</h2>
    <h3>Passkeys</h3>
    <ul class="lines">
      {passkeys.map((passkey) => (
        <li>
          <bdi>{passkey.name}</bdi>
          <span class="quiet">
            made <Age timeMs={passkey.createdAt} now={now} />
            {passkey.lastUsedAt !== null && (
              <>
                , used <Age timeMs={passkey.lastUsedAt} now={now} />
              </>
            )}
          </span>
          {passkeys.length > 1 && <Action action={`/settings/passkeys/${passkey.id}/remove`}>Remove</Action>}
        </li>
      ))}
    </ul>
    <form class="form" method="post" action="/settings/passkeys" data-passkey="add">
      <input type="hidden" name="response" value="" data-response />
      <div class="field">
        <label for="passkey-name">Name of a new passkey</label>
        <input id="passkey-name" name="name" maxlength={100} value="Another passkey" required />
      </div>
      <button type="submit" data-needs-script hidden>
        Add a passkey
      </button>
      <p class="fault" role="alert" data-fault hidden />
    </form>
    <h3>Recovery codes</h3>
    <p>{codesLeft === 0 ? "None is left. Make new ones." : `${codesLeft} of 8 are left.`}</p>
    <p class="buttons">
      <Action action="/settings/recovery-codes" hidden={{ nonce: newNonce() }}>
        Make new recovery codes
      </Action>
    </p>
  </section>
);

settingsPages.post("/settings/invitations", async (c) => {
  const form = await readForm(c);
  const role = roles.find((each) => each === (form.optional("role") ?? "developer"));
  if (role === undefined)
    return showSettings(c, {
      form,
      refused: { summary: "Nobody was invited.", faults: new Map([["role", `Must be one of ${roles.join(", ")}.`]]) },
    });
  if (!mayManage(roleOf(c.get("visitor")), role)) return showForbidden(c, "owners");
  const parsed = emailInput.safeParse(form.text("email"));
  if (!parsed.success)
    return showSettings(c, {
      form,
      refused: { summary: "Nobody was invited.", faults: new Map([["email", parsed.error.issues[0]?.message ?? ""]]) },
    });
  const made = await attempt(() => runOnce(c, form, (commit) => invite({ ...reading(c), commit }, { email: parsed.data, role })));
  if ("refused" in made) return showSettings(c, { form, refused: made.refused });
  if ("repeated" in made.result) return back(c, "invited-before");
  const { invitation, token } = made.result.result;
  const { origin } = relyingParty(c);
  return showPage(
    c,
    { title: "Invited", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      <p role="status">
        Send this link to {invitation.email}. It makes one member, a {invitation.role}, and works once, for seven days.
      </p>
      <section class="secret-text" id="link" aria-label="Invitation link">{`${origin}/setup#${token}`}</section>
      <CopyButton of="#link" />
      <p class="quiet">This is the only time that it is shown. If it is lost, withdraw the invitation and make another.</p>
      <p>
        <a class="button" href="/settings">
          Back to the settings
        </a>
      </p>
    </section>,
  );
});

settingsPages.post("/settings/invitations/:id/withdraw", async (c) => {
  const invitation = (await listInvitations(reading(c))).find(({ id }) => id === idOf(c));
  if (!invitation) throw new Failure("not_found", "There is no such invitation.");
  if (!mayManage(roleOf(c.get("visitor")), invitation.role)) return showForbidden(c, "owners");
  await withdrawInvitation(writing(c), invitation.id);
  return back(c, "withdrawn");
});

settingsPages.post("/settings/people/:id/remove", async (c) => {
  const member = await readMember(reading(c), idOf(c));
  if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
  const removed = await attempt(() => removeMember(writing(c), member.id));
  return "refused" in removed ? showSettings(c, { refused: removed.refused }) : back(c, "removed");
});

settingsPages.post("/settings/people/:id/role", async (c) => {
  const form = await readForm(c);
  const own = roleOf(c.get("visitor"));
  const member = await readMember(reading(c), idOf(c));
  const role = roles.find((each) => each === form.text("role"));
  if (role === undefined || !mayManage(own, member.role) || !mayManage(own, role)) return showForbidden(c, "owners");
  const changed = await attempt(() => changeRole(writing(c), member.id, role));
  return "refused" in changed ? showSettings(c, { refused: changed.refused }) : back(c, "role");
});

settingsPages.post("/settings/sessions/:id/end", async (c) => {
  const { signedIn } = c.get("visitor");
  await endSession(writing(c), idOf(c), visitorMay(c, "sessions") ? undefined : signedIn?.member.id);
  return back(c, "ended");
});

/** The one who has signed in. Throws `not_found` where the overview is open, and nobody has. */
function requireSignedIn(c: PageContext): SignedIn {
  const { signedIn } = c.get("visitor");
  if (!signedIn) throw new Failure("not_found", "Nobody has signed in: on this machine the overview is open.");
  return signedIn;
}

settingsPages.post("/settings/passkeys/options", async (c) => {
  const { member } = requireSignedIn(c);
  const { db, now } = reading(c);
  const known = await listPasskeys(db, member.id);
  return c.json(await registrationOptions(relyingParty(c), now, { name: member.name, email: member.email, purpose: "add", known }));
});

settingsPages.post("/settings/passkeys", async (c) => {
  const { member } = requireSignedIn(c);
  const form = await readForm(c);
  const response = form.optional("response");
  // The form comes so where who sent it had first to confirm who they are.
  if (response === undefined) return back(c, "confirmed");
  const name = text(1, 100).safeParse(form.text("name"));
  const { db, now } = reading(c);
  const added = await attempt(async () => {
    const passkey = await verifyRegistration(db, relyingParty(c), now, { response, name: name.data ?? "Another passkey", purpose: "add" });
    await addPasskey(writing(c), member, passkey);
  });
  return "refused" in added ? showSettings(c, { refused: added.refused }) : back(c, "passkey-added");
});

settingsPages.post("/settings/passkeys/:id/remove", async (c) => {
  const { member } = requireSignedIn(c);
  const removed = await attempt(() => removePasskey(writing(c), member, idOf(c)));
  return "refused" in removed ? showSettings(c, { refused: removed.refused }) : back(c, "passkey-removed");
});

settingsPages.post("/settings/recovery-codes", async (c) => {
  const { member } = requireSignedIn(c);
  const made = await runOnce(c, await readForm(c), (commit) => replaceRecoveryCodes({ ...reading(c), commit }, member));
  if ("repeated" in made)
    return showPage(
      c,
      { title: "Your recovery codes", section: "Settings", status: 409, trail: [["Settings", "/settings"]] },
      <section class="panel">
        <p role="alert">
          This form was sent before, and its codes were shown that once. They hold; if you have not kept them, make new ones.
        </p>
      </section>,
    );
  const codes = made.result;
  return showPage(
    c,
    { title: "Your recovery codes", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      <p role="status">Made. The codes from before do not work any more.</p>
      <RecoveryCodes codes={codes} />
    </section>,
  );
});

settingsPages.post("/logout", async (c) => {
  const { signedIn } = c.get("visitor");
  if (signedIn && !signedIn.session) return c.redirect("/cdn-cgi/access/logout", 303);
  if (signedIn?.session) await endSession(writing(c), signedIn.session.id, signedIn.member.id);
  clearSession(c);
  return c.redirect("/login", 303);
});

/** What would go, before it goes. */
settingsPages.get("/settings/sample-data", async (c) => {
  const { sampleUntil } = c.get("visitor").account;
  return showPage(
    c,
    { title: "Remove the sample data", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      {sampleUntil === null ? (
        <p>There is none.</p>
      ) : (
        <>
          <p>
            Everything from before <Moment timeMs={sampleUntil} /> goes, for good: people, tasks, requests, figures and the keys “Production
            backend”, “Mobile app” and “Nightly export”, which are refused from then on. What has come since stays.
          </p>
          <p class="buttons">
            <Action action="/settings/sample-data" kind="danger">
              Remove sample data
            </Action>
            <a class="button" href="/settings">
              Keep it
            </a>
          </p>
        </>
      )}
    </section>,
  );
});

settingsPages.post("/settings/sample-data", async (c) => {
  const { account } = c.get("visitor");
  const { id, sampleUntil } = account;
  if (sampleUntil === null) return back(c, "sample-removed");
  const asking = await upToDate(c);
  // Their guards first: a row that is gone says nothing to them.
  for (let after: KeyPosition | undefined; ; ) {
    const keys = await listKeys(asking, { after, limit: mostKeys });
    for (const key of keys) if (key.createdAt < sampleUntil && key.state !== "revoked") await revokeKey(keyWriting(c), key.id, always);
    after = keys.at(-1);
    if (keys.length < mostKeys) break;
  }
  await removeSampleData(asking.db, { id, sampleUntil }, asking.now);
  return back(c, "sample-removed");
});

/** How pages look is remembered by cookie, so that it works without script. */
settingsPages.post("/preferences", async (c) => {
  const form = await readForm(c);
  const [theme, zone] = [form.text("theme"), form.text("zone")];
  if (isTheme(theme)) remember(c, "theme", theme);
  if (isZone(zone)) remember(c, "zone", zone);
  return c.redirect(pathWithin(form.text("return_to")), 303);
});
