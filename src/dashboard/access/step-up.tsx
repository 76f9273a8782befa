import { Hono } from "hono";
import { connect } from "../../db/client.ts";
import { originOf } from "../../http/client-address.ts";
import type { Member } from "../../identity/member.ts";
import { confirmSession, type Proof, stepUpMs } from "../../identity/sessions.ts";
import { authenticationOptions, verifyAuthentication } from "../../identity/webauthn.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { tooManyCodes, trySpendingRecoveryCode } from "../../monitoring/sign-in-failures.ts";
import { Submit } from "../components/fields.tsx";
import { BackLink, PageScript, showPage } from "../components/layout.tsx";
import { Alert } from "../components/notice.tsx";
import { type PageContext, type PageEnv, requireSignedIn, returnUrlOf } from "../context.ts";
import { type Form, type FormError, readForm } from "../forms.ts";
import { unboundOutbox } from "../operation-contexts.ts";
import { needs } from "./needs.ts";
import { relyingParty } from "./relying-party.ts";

const confirmationFields = ["confirm_response", "confirm_code"];

/** Serves the passkey options that a browser needs for a step-up. */
export const confirmPages = new Hono<PageEnv>().post("/confirm/options", needs("session"), async (c) =>
  c.json(await authenticationOptions(relyingParty(c), Date.now(), { purpose: "confirm", subjectId: requireSignedIn(c).member.id })),
);

/**
 * Returns the step-up page if the visitor's sign-in is not recent enough. Returns null if the sign-in is less than ten minutes old, the
 * form contains a valid confirmation, or the overview is open. The step-up page contains the submitted fields and sends them to the same
 * handler again.
 */
export async function askForStepUp(c: PageContext): Promise<Response | null> {
  const visitor = c.get("visitor");
  const { signedIn } = visitor;
  if (signedIn === null || Date.now() - signedIn.verifiedAt < stepUpMs) return null;
  const returnUrl = returnUrlOf(visitor);
  if (returnUrl !== null) return askForNewLink(c, returnUrl);
  const form = await readForm(c);
  if (signedIn.session === null) return askToSignInAgain(c, form);
  if (form.optional("confirm_response") === undefined && form.optional("confirm_code") === undefined) return askToConfirm(c, form);
  const now = Date.now();
  try {
    const proof = await proofIn(c, signedIn.member, form, now);
    const session = await confirmSession(unboundOutbox(c), proof, signedIn.session, now, originOf(c));
    // The form may have used up a recovery code. Update `verifiedAt` so that a second step-up check in this request does not ask for
    // another code.
    c.set("visitor", { ...visitor, signedIn: { ...signedIn, session, verifiedAt: session.verifiedAt } });
    return null;
  } catch (error) {
    if (!(error instanceof Failure && error.code === "forbidden")) throw error;
    return askToConfirm(c, form, { summary: error.message, fieldErrors: new Map() });
  }
}

/** Responds with the step-up page for a member who came by a portal link: a new link is a new sign-in. */
const askForNewLink = (c: PageContext, returnUrl: string) =>
  showPage(
    c,
    { title: "Confirm that it is you", status: 403 },
    <section class="panel">
      <p role="alert">
        This action needs a recent sign-in, but you came here more than ten minutes ago. Nothing was changed. Go back, open the page from
        there again, and repeat the action.
      </p>
      <p>
        <BackLink to={returnUrl} />
      </p>
    </section>,
  );

/** Returns the proof of identity in the form. Throws `forbidden` if there is none. */
async function proofIn(c: PageContext, member: Member, form: Form, now: number): Promise<Proof> {
  const db = connect(c.env.DB);
  const code = form.optional("confirm_code");
  if (code === undefined) {
    const response = form.text("confirm_response");
    return verifyAuthentication(db, relyingParty(c), now, { response, purpose: "confirm", subjectId: member.id });
  }
  const spent = await trySpendingRecoveryCode(db, code, now, { confirming: member, from: originOf(c) });
  if ("proof" in spent) return spent.proof;
  const wrong = "This is not one of your recovery codes, or it was already used.";
  throw new Failure("forbidden", spent.refused === "wrong" ? wrong : tooManyCodes);
}

/**
 * Responds with the step-up page for Cloudflare Access. To get a newer token, the visitor signs in again in another tab. Then the visitor
 * sends the same form again.
 */
const askToSignInAgain = (c: PageContext, form: Form) =>
  showPage(
    c,
    { title: "Confirm that it is you", status: 403 },
    <form class="panel form" method="post" action={c.req.path}>
      <p>
        This action needs a recent sign-in, but you signed in more than ten minutes ago.{" "}
        <a href="/cdn-cgi/access/logout" target="_blank" rel="noopener">
          Sign in again in another tab
        </a>
        , then continue here. Your input is kept.
      </p>
      {form.entries().map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <Submit>Continue</Submit>
    </form>,
  );

/**
 * Responds with the step-up page for a passkey or a recovery code. The form on this page contains the submitted fields as hidden inputs.
 */
const askToConfirm = (c: PageContext, form: Form, formError?: FormError) =>
  showPage(
    c,
    { title: "Confirm that it is you", status: formError ? 422 : 403 },
    <>
      <Alert formError={formError} />
      <form class="panel form" method="post" action={c.req.path} data-passkey="confirm">
        <p>This action needs a recent sign-in. Confirm that it is you. You will not be asked again for ten minutes. Your input is kept.</p>
        {form
          .entries()
          .map(([name, value]) => (confirmationFields.includes(name) ? null : <input type="hidden" name={name} value={value} />))}
        <input type="hidden" name="confirm_response" value="" data-response />
        <Submit data-needs-script hidden>
          Confirm with a passkey
        </Submit>
        <p class="field-error" role="alert" data-error hidden />
        <div class="field">
          <label for="confirm_code">Recovery code</label>
          <input id="confirm_code" name="confirm_code" autocomplete="one-time-code" data-code />
        </div>
        <button type="submit" data-plain>
          Confirm with a recovery code
        </button>
      </form>
      <PageScript name="passkeys" c={c} />
    </>,
  );
