import { Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { connect } from "../../../db/client.ts";
import { originOf } from "../../../http/client-address.ts";
import { urlOf } from "../../../http/request-url.ts";
import { accessConfig } from "../../../identity/access.ts";
import { acceptInvitation, readInvitation, readParties } from "../../../identity/join.ts";
import type { Invitation } from "../../../identity/open-invitations.ts";
import { openSession, type Proof, type SessionOrigin } from "../../../identity/sessions.ts";
import { authenticationOptions, registrationOptions, verifyAuthentication, verifyRegistration } from "../../../identity/webauthn.ts";
import { Failure, failures } from "../../../lib/errors/failure.ts";
import { visibleText } from "../../../lib/inputs/values.ts";
import { tooManyCodes, trySpendingRecoveryCode } from "../../../monitoring/sign-in-failures.ts";
import { relyingParty } from "../../access/relying-party.ts";
import { setSession } from "../../access/session-cookie.ts";
import { Page, PageScript } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { RecoveryCodes } from "../../components/recovery-codes.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { type FormError, readForm } from "../../forms.ts";
import { memberEmail } from "../../member-email.ts";
import { unboundOutbox } from "../../operation-contexts.ts";
import { pathWithin } from "../../preferences.ts";

const maxUserAgent = 256;
const firstPasskey = "My first passkey";

/** Explains what most people have used, but do not know by this name. */
const PasskeyHelp = () => (
  <p class="help">
    A passkey replaces a password. Your device keeps it, and asks for your fingerprint, your face or your PIN before it is used.
  </p>
);

const sessionOrigin = (c: PageContext): SessionOrigin => ({
  ...originOf(c),
  userAgent: c.req.header("User-Agent")?.slice(0, maxUserAgent).toWellFormed() ?? null,
});

const readContext = (c: PageContext) => ({ db: connect(c.env.DB), now: Date.now() });

/** Responds to the page's script with JSON. If `work` throws a `Failure`, the JSON contains its message. */
async function respondJson(c: PageContext, work: () => Promise<object>) {
  try {
    return c.json(await work());
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return c.json({ error: error.message }, failures[error.code].status);
  }
}

const formErrorOf = (error: unknown): FormError => {
  if (error instanceof Failure && (error.code === "forbidden" || error.code === "conflict" || error.code === "invalid_body"))
    return { summary: error.message, fieldErrors: new Map() };
  throw error;
};

/** `returnTo` is the page to open after sign-in. */
interface SignInOptions {
  returnTo?: string;
  formError?: FormError;
}

/** The pages for people who have not signed in. */
export const signInPages = new Hono<PageEnv>();

/**
 * Responds with 404 if the deployment uses Cloudflare Access. With Cloudflare Access, a setup link alone would let its holder join with
 * another person's email address. Redirects from 127.0.0.1 to localhost, because passkeys need a host name.
 */
const passkeysOnly = createMiddleware<PageEnv>(async function passkeysOnly(c, next) {
  if (accessConfig(c.env))
    throw new Failure("not_found", "This deployment signs people in with Cloudflare Access. Open the overview instead.");
  const { hostname, port, pathname, search } = urlOf(c);
  if (c.req.method === "GET" && hostname === "127.0.0.1") return c.redirect(`http://localhost:${port}${pathname}${search}`, 302);
  return next();
});
signInPages.use("/login/*", passkeysOnly);
signInPages.use("/setup/*", passkeysOnly);

function showLogin(c: PageContext, { returnTo = "/", formError }: SignInOptions) {
  return c.html(
    <Page title="Sign in">
      <main class="panel notice">
        <h1>Sign in</h1>
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
          <button class="main" type="submit" data-needs-script hidden>
            Sign in with a passkey
          </button>
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
          Cannot sign in? An owner or admin of the account can invite you. The team behind this service can create a new setup link.
        </p>
        {c.get("isLocal") && <p class="quiet">Without --sign-in, this overview belongs to every user and program of this machine.</p>}
      </main>
      <PageScript name="passkeys" c={c} />
    </Page>,
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
    <Page title="Use a recovery code">
      <main class="panel notice">
        <h1>Use a recovery code</h1>
        <Alert formError={formError} />
        <form class="form" method="post" action="/login/recovery">
          <input type="hidden" name="return_to" value={returnTo} />
          <div class="field">
            <label for="code">Recovery code</label>
            <input id="code" name="code" required autocomplete="one-time-code" autocapitalize="none" spellcheck={false} />
          </div>
          <p class="help">Enter one of the eight recovery codes that you got when you joined. Each code works once.</p>
          <button class="main" type="submit">
            Sign in
          </button>
        </form>
        <p>
          <a href={`/login?return_to=${encodeURIComponent(returnTo)}`}>Sign in with a passkey instead</a>
        </p>
      </main>
    </Page>,
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

function showSetup(c: PageContext, formError?: FormError) {
  return c.html(
    <Page title="Join">
      <main class="panel notice">
        <h1>Set up your sign-in</h1>
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
            <button class="main" type="submit">
              Create passkey
            </button>
            <PasskeyHelp />
          </form>
        )}
        <p class="field-error" role="alert" data-error hidden />
        <noscript>
          <p>You need JavaScript to create a passkey. Allow JavaScript for this page, then reload.</p>
        </noscript>
      </main>
      <PageScript name="passkeys" c={c} />
    </Page>,
    formError ? 403 : 200,
  );
}

signInPages.get("/setup", (c) => showSetup(c));

/** Returns what an invitation is for. Without a valid token, the response reveals nothing about an account. */
signInPages.post("/setup/check", (c) =>
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

signInPages.post("/setup/options", (c) =>
  respondJson(c, async () => {
    const form = await readForm(c);
    const invitation = await readInvitation(readContext(c), form.text("token"));
    const person = personOf(invitation, form.text("name"), form.text("email"));
    return registrationOptions(relyingParty(c), Date.now(), { ...person, purpose: "join", subjectId: invitation.id });
  }),
);

signInPages.post("/setup", async (c) => {
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
      <Page title="Your recovery codes">
        <main class="panel notice">
          <h1>Your recovery codes</h1>
          <p role="status">You have joined the account, and you are signed in.</p>
          <RecoveryCodes codes={claimed.codes} />
          <p>
            <a class="button main" href="/">
              I have saved the codes: go to the overview
            </a>
          </p>
        </main>
        <PageScript name="overview" c={c} />
      </Page>,
    );
  } catch (error) {
    return showSetup(c, formErrorOf(error));
  }
});
