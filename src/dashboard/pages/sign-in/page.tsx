import { Hono } from "hono";
import { originOf } from "../../../http/client-address.ts";
import { urlOf } from "../../../http/request-url.ts";
import { openSession, type Proof } from "../../../identity/sessions.ts";
import { authenticationOptions, verifyAuthentication } from "../../../identity/webauthn.ts";
import { brand, teamName } from "../../../lib/settings.ts";
import { tooManyCodes, trySpendingRecoveryCode } from "../../../monitoring/sign-in-failures.ts";
import { relyingParty } from "../../access/relying-party.ts";
import { setSession } from "../../access/session-cookie.ts";
import { Submit } from "../../components/fields.tsx";
import { BackLink, NoticePage, PageScript, SupportLink } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { type FormError, readForm } from "../../forms.ts";
import { unboundOutbox } from "../../operation-contexts.ts";
import { pathWithin } from "../../preferences.ts";
import { formErrorOf, PasskeyHelp, passkeysOnly, readContext, respondJson, sessionOrigin } from "./passkeys.tsx";

/** `returnTo` is the page to open after sign-in. */
interface SignInOptions {
  returnTo?: string;
  formError?: FormError;
}

/** The pages for people who have not signed in. */
export const signInPages = new Hono<PageEnv>();

signInPages.use("/login/*", passkeysOnly);

function showLogin(c: PageContext, { returnTo = "/", formError }: SignInOptions) {
  return c.html(
    <NoticePage title="Sign in" after={<PageScript name="passkeys" c={c} />}>
      <p>
        This is the developer overview at <strong>{urlOf(c).host}</strong>. Your passkey decides which account opens.
      </p>
      {c.req.query("unsent") && (
        <p role="alert">Your session had ended, so your form was not processed. Sign in, and send the form again.</p>
      )}
      <Alert formError={formError} />
      <form class="form" method="post" action="/login" data-passkey="sign-in">
        <input type="hidden" name="return_to" value={returnTo} />
        <input type="hidden" name="response" value="" data-response />
        <Submit data-needs-script hidden>
          Sign in with a passkey
        </Submit>
        <PasskeyHelp />
        <p class="field-error" role="alert" data-error hidden />
      </form>
      <noscript>
        <p>Passkeys need JavaScript, but recovery codes work without it.</p>
      </noscript>
      <p>
        <a href={`/login/recovery?return_to=${encodeURIComponent(returnTo)}`}>Use a recovery code</a>
      </p>
      <p class="quiet">
        Cannot sign in? An owner or admin of the account can invite you. Ask {teamName} for a new setup link.{" "}
        <SupportLink>Contact support</SupportLink>
      </p>
      {brand.appUrl !== "" && (
        <p>
          <BackLink to={brand.appUrl} />
        </p>
      )}
      {c.get("isLocal") && <p class="quiet">Without --sign-in, this overview belongs to every user and program of this machine.</p>}
    </NoticePage>,
    formError ? 403 : 200,
  );
}

signInPages.get("/login", (c) => showLogin(c, { returnTo: pathWithin(c.req.query("return_to") ?? "/") }));

signInPages.post("/login/options", (c) =>
  respondJson(c, async () => {
    return authenticationOptions(relyingParty(c), Date.now(), { purpose: "sign-in" });
  }),
);

async function enter(c: PageContext, proof: Proof, returnTo: string) {
  await setSession(c, await openSession(unboundOutbox(c), proof, Date.now(), sessionOrigin(c)));
  return c.redirect(pathWithin(returnTo), 303);
}

signInPages.post("/login", async (c) => {
  const form = await readForm(c);
  const { db, now } = readContext(c);
  try {
    const proof = await verifyAuthentication(db, relyingParty(c), now, { response: form.text("response"), purpose: "sign-in" });
    return await enter(c, proof, form.text("return_to"));
  } catch (error) {
    return showLogin(c, { returnTo: pathWithin(form.text("return_to")), formError: formErrorOf(error) });
  }
});

function showRecovery(c: PageContext, { returnTo = "/", formError, status = 200 }: SignInOptions & { status?: 200 | 403 | 429 }) {
  return c.html(
    <NoticePage title="Use a recovery code">
      <Alert formError={formError} />
      <form class="form" method="post" action="/login/recovery">
        <input type="hidden" name="return_to" value={returnTo} />
        <div class="field">
          <label for="code">Recovery code</label>
          <input id="code" name="code" required autocomplete="one-time-code" autocapitalize="none" spellcheck={false} />
        </div>
        <p class="help">Enter one of the eight recovery codes that you got when you joined. Each code works once.</p>
        <Submit>Sign in</Submit>
      </form>
      <p>
        <a href={`/login?return_to=${encodeURIComponent(returnTo)}`}>Sign in with a passkey instead</a>
      </p>
    </NoticePage>,
    status,
  );
}

signInPages.get("/login/recovery", (c) => showRecovery(c, { returnTo: pathWithin(c.req.query("return_to") ?? "/") }));

signInPages.post("/login/recovery", async (c) => {
  const form = await readForm(c);
  const { db, now } = readContext(c);
  const spent = await trySpendingRecoveryCode(db, form.text("code"), now, { confirming: null, from: originOf(c) });
  if ("proof" in spent) return enter(c, spent.proof, form.text("return_to"));
  const isTooMany = spent.refused === "too many";
  const summary = isTooMany ? tooManyCodes : "This is not a valid recovery code, or it was already used.";
  const returnTo = pathWithin(form.text("return_to"));
  return showRecovery(c, { returnTo, formError: { summary, fieldErrors: new Map() }, status: isTooMany ? 429 : 403 });
});
