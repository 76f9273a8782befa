import { Hono } from "hono";
import { connect } from "../../../db/client.ts";
import { originOf } from "../../../http/client-address.ts";
import { accessConfig, listMemberships, verifyAccess } from "../../../identity/access.ts";
import { joinByEmail, listReceivedInvitations, type ReceivedInvitation } from "../../../identity/join.ts";
import { Failure } from "../../../lib/errors/failure.ts";
import { teamName } from "../../../lib/settings.ts";
import { accessToken } from "../../access/session-cookie.ts";
import { Fact } from "../../components/fact.tsx";
import { Submit } from "../../components/fields.tsx";
import { NoticePage } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { Ahead } from "../../components/time.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { attempt, type FormError, readForm } from "../../forms.ts";
import { unboundOutbox } from "../../operation-contexts.ts";
import { pathWithin, remember } from "../../preferences.ts";
import { uninvitedPage } from "../error/closed.tsx";

/** Pages where users of Cloudflare Access choose an account and accept invitations. */
export const accessPages = new Hono<PageEnv>();

/**
 * Returns the email address that Cloudflare Access has verified. Throws `not_found` if the deployment uses passkeys. Throws `forbidden` if
 * the token from Access is invalid.
 */
async function verifiedEmail(c: PageContext, now: number): Promise<string> {
  const access = accessConfig(c.env);
  if (!access) throw new Failure("not_found", "There is nothing at this path.");
  return (await verifyAccess(access, accessToken(c), now)).email;
}

accessPages.get("/access", (c) => showAccounts(c, { returnTo: pathWithin(c.req.query("return_to") ?? "/") }));

async function showAccounts(c: PageContext, { returnTo, formError }: { returnTo: string; formError?: FormError }) {
  const db = connect(c.env.DB);
  const now = Date.now();
  const email = await verifiedEmail(c, now);
  const [memberships, offers] = await Promise.all([listMemberships(db, email), listReceivedInvitations(db, email, now)]);
  if (memberships.length === 0 && offers.length === 0) return uninvitedPage(c);
  return c.html(
    <NoticePage title="Your accounts">
      {c.req.query("unsent") && (
        <p role="alert">No account was selected, so your form was not processed. Choose an account, and send the form again.</p>
      )}
      <Alert formError={formError} />
      <p>
        You are signed in as <span class="break">{email}</span>.
      </p>
      {memberships.length > 0 && (
        <form method="post" action="/access/account">
          <input type="hidden" name="return_to" value={returnTo} />
          <ul class="lines">
            {memberships.map(({ account, member }) => (
              <li>
                <span>
                  <bdi>{account.name}</bdi> <span class="quiet">{member.role}</span> <code class="quiet">{account.id}</code>
                </span>
                <button type="submit" name="account" value={account.id}>
                  <span>
                    Open <bdi>{account.name}</bdi>
                  </span>
                </button>
              </li>
            ))}
          </ul>
        </form>
      )}
      {offers.length > 0 && (
        <>
          <h2>Invitations</h2>
          <p>You join an account only when you press the button beside its name. Join only accounts that you know.</p>
          {offers.map((offer) => (
            <OfferPanel offer={offer} returnTo={returnTo} now={now} />
          ))}
        </>
      )}
    </NoticePage>,
    formError ? 422 : 200,
  );
}

const OfferPanel = ({
  offer: { invitation, accountName, inviter },
  returnTo,
  now,
}: {
  offer: ReceivedInvitation;
  returnTo: string;
  now: number;
}) => (
  <form class="form" method="post" action="/access/join">
    <input type="hidden" name="return_to" value={returnTo} />
    <input type="hidden" name="invitation" value={invitation.id} />
    <dl class="facts">
      <Fact name="Account">
        <bdi>{accountName}</bdi> <code class="quiet">{invitation.accountId}</code>
      </Fact>
      <Fact name="Invited by">
        {inviter ? (
          <>
            <bdi>{inviter.name}</bdi> <span class="quiet break">{inviter.email}</span>
          </>
        ) : (
          teamName
        )}
      </Fact>
      <Fact name="Role">{invitation.role}</Fact>
      <Fact name="Ends">
        <Ahead timeMs={invitation.expiresAt} now={now} />
      </Fact>
    </dl>
    <Submit>
      <span>
        Join <bdi>{accountName}</bdi>, invited by <bdi>{inviter?.name ?? teamName}</bdi>
      </span>
    </Submit>
  </form>
);

accessPages.post("/access/join", async (c) => {
  const form = await readForm(c);
  const now = Date.now();
  const returnTo = pathWithin(form.text("return_to"));
  const email = await verifiedEmail(c, now);
  const joined = await attempt(() =>
    joinByEmail(unboundOutbox(c), now, { email, invitationId: form.text("invitation"), from: originOf(c) }),
  );
  if ("formError" in joined) return showAccounts(c, { returnTo, formError: joined.formError });
  remember(c, "account", joined.result.accountId);
  return c.redirect(returnTo, 303);
});

accessPages.post("/access/account", async (c) => {
  const form = await readForm(c);
  const returnTo = pathWithin(form.text("return_to"));
  const memberships = await listMemberships(connect(c.env.DB), await verifiedEmail(c, Date.now()));
  const chosen = memberships.find(({ account }) => account.id === form.text("account"));
  if (!chosen)
    return showAccounts(c, { returnTo, formError: { summary: "You are not a member of this account.", fieldErrors: new Map() } });
  remember(c, "account", chosen.account.id);
  return c.redirect(returnTo, 303);
});
