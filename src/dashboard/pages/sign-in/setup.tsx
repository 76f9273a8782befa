import { Hono } from "hono";
import { acceptInvitation, readInvitation, readParties } from "../../../identity/join.ts";
import type { Invitation } from "../../../identity/open-invitations.ts";
import { registrationOptions, verifyRegistration } from "../../../identity/webauthn.ts";
import { Failure } from "../../../lib/errors/failure.ts";
import { visibleText } from "../../../lib/inputs/values.ts";
import { relyingParty } from "../../access/relying-party.ts";
import { setSession } from "../../access/session-cookie.ts";
import { ButtonLink, Submit } from "../../components/fields.tsx";
import { NoticePage, PageScript } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { RecoveryCodes } from "../../components/recovery-codes.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { type FormError, readForm } from "../../forms.ts";
import { memberEmail } from "../../member-email.ts";
import { unboundOutbox } from "../../operation-contexts.ts";
import { formErrorOf, PasskeyHelp, passkeysOnly, readContext, respondJson, sessionOrigin } from "./passkeys.tsx";

const firstPasskey = "My first passkey";

/** The pages where an invited person, or the first owner of an account, creates a passkey. */
export const setupPages = new Hono<PageEnv>();

setupPages.use("/setup/*", passkeysOnly);

function showSetup(c: PageContext, formError?: FormError) {
  return c.html(
    <NoticePage title="Join" heading="Set up your sign-in" after={<PageScript name="passkeys" c={c} />}>
      <Alert formError={formError} />
      {!formError && (
        <form class="form" method="post" action="/setup" data-passkey="join" hidden>
          <p data-joining />
          <input type="hidden" name="token" value="" data-token />
          <input type="hidden" name="response" value="" data-response />
          <div class="field">
            <label for="name">Your name</label>
            <input id="name" name="name" required maxlength={100} autocomplete="name" />
          </div>
          <div class="field" data-email>
            <label for="email">Your email address</label>
            <input id="email" name="email" type="email" required maxlength={254} autocomplete="email" />
          </div>
          <Submit>Create passkey</Submit>
          <PasskeyHelp />
        </form>
      )}
      <p class="field-error" role="alert" data-error hidden />
      <noscript>
        <p>You need JavaScript to create a passkey. Allow JavaScript for this page, then reload.</p>
      </noscript>
    </NoticePage>,
    formError ? 403 : 200,
  );
}

setupPages.get("/setup", (c) => showSetup(c));

/** Returns what an invitation is for. Without a valid token, the response reveals nothing about an account. */
setupPages.post("/setup/check", (c) =>
  respondJson(c, async () => {
    const form = await readForm(c);
    const context = readContext(c);
    const invitation = await readInvitation(context, form.text("token"));
    const { kind, email, role } = invitation;
    const { account, invitedBy } = await readParties(context.db, invitation);
    return { kind, email, role, account, invited_by: invitedBy };
  }),
);

/**
 * Validates the name and email address of a person who joins. An invited person gets the email address from the invitation, not from the
 * form. Throws `invalid_body` if a value is invalid.
 */
function personOf(invitation: Invitation, name: string, email: string) {
  const wrongName = visibleText(1, 100).safeParse(name).error?.issues[0]?.message;
  if (wrongName) throw new Failure("invalid_body", `Your name: ${wrongName}`);
  if (invitation.kind === "invite") return { name, email: invitation.email };
  const wrongEmail = memberEmail.safeParse(email).error?.issues[0]?.message;
  if (wrongEmail) throw new Failure("invalid_body", `Your email address: ${wrongEmail}`);
  return { name, email };
}

setupPages.post("/setup/options", (c) =>
  respondJson(c, async () => {
    const form = await readForm(c);
    const invitation = await readInvitation(readContext(c), form.text("token"));
    const person = personOf(invitation, form.text("name"), form.text("email"));
    return registrationOptions(relyingParty(c), Date.now(), { ...person, purpose: "join", subjectId: invitation.id });
  }),
);

setupPages.post("/setup", async (c) => {
  const form = await readForm(c);
  const { db, now } = readContext(c);
  const token = form.text("token");
  try {
    const invitation = await readInvitation({ db, now }, token);
    const person = personOf(invitation, form.text("name"), form.text("email"));
    const passkey = await verifyRegistration(db, relyingParty(c), now, {
      response: form.text("response"),
      name: firstPasskey,
      purpose: "join",
      subjectId: invitation.id,
    });
    const claimed = await acceptInvitation(unboundOutbox(c), now, { token, person, passkey, from: sessionOrigin(c) });
    await setSession(c, claimed.token);
    return c.html(
      <NoticePage title="Your recovery codes" after={<PageScript name="overview" c={c} />}>
        <p role="status">You have joined the account, and you are signed in.</p>
        <RecoveryCodes codes={claimed.codes} />
        <p>
          <ButtonLink href="/">I have saved the codes: go to the overview</ButtonLink>
        </p>
      </NoticePage>,
    );
  } catch (error) {
    return showSetup(c, formErrorOf(error));
  }
});
