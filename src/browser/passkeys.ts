import { startAuthentication, startRegistration } from "@simplewebauthn/browser";

// This script runs the passkey ceremony that the `data-passkey` attribute of a form names. The script stores the passkey's response in a
// hidden field and then submits the form normally.

const ceremonies = {
  join: { options: "/setup/options", make: startRegistration },
  add: { options: "/settings/passkeys/options", make: startRegistration },
  "sign-in": { options: "/login/options", make: startAuthentication },
  confirm: { options: "/confirm/options", make: startAuthentication },
} as const;

const errorLineOf = (form: HTMLElement) =>
  form.querySelector<HTMLElement>("[data-error]") ?? document.querySelector<HTMLElement>("[data-error]");

function say(form: HTMLElement, text: string): void {
  const errorLine = errorLineOf(form);
  if (!errorLine) return;
  errorLine.textContent = text;
  errorLine.hidden = text === "";
}

class RequestError extends Error {}

async function post(path: string, form: HTMLFormElement): Promise<Record<string, unknown> | null> {
  const fields = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  const response = await fetch(path, { method: "POST", body: new URLSearchParams(fields) });
  // If the member must first confirm their sign-in, the server responds with a page instead of JSON.
  if (!response.headers.get("Content-Type")?.includes("json")) return null;
  const result = (await response.json()) as Record<string, unknown>;
  if (!response.ok) throw new RequestError(String(result.error ?? "The request was refused. Load the page again."));
  return result;
}

async function makeResponse(form: HTMLFormElement, ceremony: keyof typeof ceremonies): Promise<string | null> {
  const { options, make } = ceremonies[ceremony];
  const optionsJSON = await post(options, form);
  return optionsJSON === null ? null : JSON.stringify(await make({ optionsJSON } as never));
}

function sentenceFor(error: unknown): string {
  if (error instanceof RequestError) return error.message;
  const { name } = error as Error;
  if (name === "NotAllowedError" || name === "AbortError") return "No passkey was provided. Try again when you have your passkey at hand.";
  if (name === "InvalidStateError") return "This device already has a passkey for this account.";
  return "The passkey could not be used here. Try another browser or device, or use a recovery code.";
}

for (const form of document.querySelectorAll<HTMLFormElement>("form[data-passkey]")) {
  const ceremony = form.dataset.passkey as keyof typeof ceremonies;
  for (const button of form.querySelectorAll<HTMLElement>("[data-needs-script]")) button.hidden = false;
  form.addEventListener("submit", async (event) => {
    // A recovery code needs no passkey. Let the browser submit the form if the member pressed the recovery-code button or typed a code.
    if ((event.submitter as HTMLElement | null)?.hasAttribute("data-plain")) return;
    if (form.querySelector<HTMLInputElement>("[data-code]")?.value.trim()) return;
    event.preventDefault();
    say(form, "");
    form.setAttribute("aria-busy", "true");
    try {
      const response = await makeResponse(form, ceremony);
      const field = form.querySelector<HTMLInputElement>("[data-response]");
      if (field) field.value = response ?? "";
      form.submit();
    } catch (error) {
      say(form, sentenceFor(error));
      form.removeAttribute("aria-busy");
    }
  });
}

/** Says which account a link is for, and who created it. */
function sentenceAbout({ kind, email, role, account, invited_by: invitedBy }: Record<string, unknown>): string {
  if (kind !== "invite") return `You are setting up the account “${account}”, and become its owner.`;
  return `${invitedBy === null ? "You are invited" : `${invitedBy} invites you`} to the account “${account}”, with the role ${role} and the email address ${email}.`;
}

// A setup or invitation link contains its token in the URL fragment. Browsers do not send the fragment, so no server, log or referrer
// receives the token.
const joining = document.querySelector<HTMLFormElement>('form[data-passkey="join"]');
if (joining) {
  const token = joining.querySelector<HTMLInputElement>("[data-token]");
  if (token) token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  post("/setup/check", joining)
    .then((invitation) => {
      if (invitation?.kind === "invite") {
        const email = joining.querySelector<HTMLElement>("[data-email]");
        const input = email?.querySelector("input");
        if (input) input.value = String(invitation.email);
        if (email) email.hidden = true;
      }
      const who = joining.querySelector("[data-joining]");
      if (who) who.textContent = invitation ? sentenceAbout(invitation) : "";
      joining.hidden = false;
      joining.querySelector<HTMLInputElement>("input:not([type=hidden])")?.focus();
    })
    .catch((error: unknown) => {
      joining.remove();
      say(document.body, sentenceFor(error));
    });
}
