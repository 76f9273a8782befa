import { Hono } from "hono";
import { addPasskey, listPasskeys, removePasskey } from "../../../identity/passkeys.ts";
import { replaceRecoveryCodes } from "../../../identity/recovery-codes.ts";
import { endOtherSessions, endSession, readMemberOfSession } from "../../../identity/sessions.ts";
import { registrationOptions, verifyRegistration } from "../../../identity/webauthn.ts";
import { visibleText } from "../../../lib/inputs/values.ts";
import { commitTo } from "../../../outbox/outbox.ts";
import { needs } from "../../access/needs.ts";
import { relyingParty } from "../../access/relying-party.ts";
import { clearPortalSession, clearSession } from "../../access/session-cookie.ts";
import { askForStepUp } from "../../access/step-up.tsx";
import { BackLink, NoticePage, showPage } from "../../components/layout.tsx";
import { RecoveryCodes } from "../../components/recovery-codes.tsx";
import { idOf, type PageEnv, requireSignedIn, returnUrlOf } from "../../context.ts";
import { runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, readForm } from "../../forms.ts";
import { contextOf, unboundOutbox } from "../../operation-contexts.ts";
import { backToSettings, showSettings } from "./page.tsx";

/** The forms for the visitor's passkeys and recovery codes, and for all sessions that the visitor may end. */
export const ownSignInPages = new Hono<PageEnv>();

ownSignInPages.post("/settings/sessions/:id/end", needs("session", "sometimes"), async (c) => {
  const { member } = requireSignedIn(c);
  const whose = await readMemberOfSession(contextOf(c), idOf(c), member);
  const stepUp = whose !== null && whose !== member.id ? await askForStepUp(c) : null;
  if (stepUp) return stepUp;
  await endSession(contextOf(c), idOf(c), member);
  return backToSettings(c, "ended");
});

ownSignInPages.post("/settings/sessions/end-others", needs("session"), async (c) => {
  await endOtherSessions(contextOf(c), requireSignedIn(c));
  return backToSettings(c, "others-ended");
});

ownSignInPages.post("/settings/passkeys/options", needs("own sign-in", "always"), async (c) => {
  const { member } = requireSignedIn(c);
  const { db, now } = contextOf(c);
  const known = await listPasskeys(db, member.id);
  return c.json(
    await registrationOptions(relyingParty(c), now, {
      name: member.name,
      email: member.email,
      purpose: "add",
      subjectId: member.id,
      known,
    }),
  );
});

ownSignInPages.post("/settings/passkeys", needs("own sign-in", "always"), async (c) => {
  const { member } = requireSignedIn(c);
  const form = await readForm(c);
  const response = form.optional("response");
  // If the member first had to confirm their sign-in, the form contains no passkey response.
  if (response === undefined) return backToSettings(c, "confirmed");
  const name = visibleText(1, 100).safeParse(form.text("name"));
  const { db, now } = contextOf(c);
  const added = await attempt(async () => {
    const passkey = await verifyRegistration(db, relyingParty(c), now, {
      response,
      name: name.data ?? "Another passkey",
      purpose: "add",
      subjectId: member.id,
    });
    await addPasskey(contextOf(c), member, passkey);
  });
  return "formError" in added ? showSettings(c, { formError: added.formError }) : backToSettings(c, "passkey-added");
});

ownSignInPages.post("/settings/passkeys/:id/remove", needs("own sign-in", "always"), async (c) => {
  const removed = await attempt(() => removePasskey(contextOf(c), requireSignedIn(c), idOf(c)));
  return "formError" in removed ? showSettings(c, { formError: removed.formError }) : backToSettings(c, "passkey-removed");
});

ownSignInPages.post("/settings/recovery-codes", needs("own sign-in", "always"), async (c) => {
  const acting = requireSignedIn(c);
  const made = await runFormIdempotently(c, await readForm(c), (commit) => replaceRecoveryCodes(contextOf(c, commit), acting));
  if ("repeated" in made)
    return showPage(
      c,
      { title: "Your recovery codes", section: "Settings", status: 409, trail: [["Settings", "/settings"]] },
      <section class="panel">
        <p role="alert">
          This form was already sent, and its codes were shown at that time. The codes that were shown are valid. If you did not save them,
          create new codes.
        </p>
      </section>,
    );
  const codes = made.result;
  return showPage(
    c,
    { title: "Your recovery codes", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      <p role="status">
        Created. Your earlier codes no longer work, and the sessions that used them have ended. If this session used one, sign in again.
      </p>
      <RecoveryCodes codes={codes} />
    </section>,
  );
});

ownSignInPages.post("/logout", needs("any session"), async (c) => {
  const { signedIn } = c.get("visitor");
  if (signedIn && !signedIn.session) return c.redirect("/cdn-cgi/access/logout", 303);
  // Signing out needs no permission. Members with any role can sign out, even if the account is suspended.
  if (signedIn?.session) await endSession(contextOf(c, commitTo(unboundOutbox(c))), signedIn.session.id, signedIn.member);
  const returnUrl = returnUrlOf(c.get("visitor"));
  if (returnUrl !== null) {
    clearPortalSession(c);
    // A redirect to another origin would break the rule `form-action 'self'`.
    return c.html(
      <NoticePage title="Signed out">
        <p role="status">You are signed out here.</p>
        <p>
          <BackLink to={returnUrl} />
        </p>
      </NoticePage>,
    );
  }
  clearSession(c);
  return c.redirect("/login", 303);
});
