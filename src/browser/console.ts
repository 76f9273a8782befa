import { forgetTemporarySecret, sendAs, temporarySecret } from "./parts/send-as.ts";

// This script sends requests to an API operation from the operation's documentation page. The script reads the API key from a form field, or gets a secret of the
// key that the reader has chosen.
// The script never copies the key to a URL, to storage or to the curl command.

const form = document.querySelector<HTMLFormElement>("form[data-console]");
const one = <Found extends HTMLElement>(selector: string) => document.querySelector<Found>(selector);

const inShell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function say(text: string): void {
  const errorLine = one("[data-error]");
  if (!errorLine) return;
  errorLine.textContent = text;
  errorLine.hidden = text === "";
}

interface Call {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** Returns the request that the form describes, or an error message. */
async function callIn(form: HTMLFormElement): Promise<Call | string> {
  const { method = "GET", path = "/" } = form.dataset;
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  let filled = path;
  for (const field of form.querySelectorAll<HTMLInputElement>("[data-in]")) {
    const { in: where, name = "" } = field.dataset;
    const value = field.value.trim();
    if (value === "") {
      if (where === "path" || field.required) return `${name} is missing.`;
      continue;
    }
    if (where === "path") filled = filled.replace(`{${name}}`, encodeURIComponent(value));
    else if (where === "query") query.set(name, value);
    else headers[name] = value;
  }
  const key = form.querySelector<HTMLInputElement>("[data-key]");
  if (key) {
    const secretKey = key.value.trim().replace(/^Bearer\s+/i, "") || (await temporarySecret());
    if (secretKey === null) return sendAs ? "Requests cannot be sent as this key right now." : "The API key is missing. Enter an API key.";
    headers.Authorization = `Bearer ${secretKey}`;
  }
  const body = form.querySelector<HTMLTextAreaElement>("[data-body]")?.value;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = query.toString();
  return { url: `${location.origin}${filled}${text && `?${text}`}`, method, headers, body };
}

/** Returns the request as a curl command that reads the key from `$API_KEY`. */
function commandOf({ url, method, headers, body }: Call): string {
  const lines = [`curl -g${method === "GET" ? "" : ` -X ${method}`} ${inShell(url)}`];
  for (const [name, value] of Object.entries(headers))
    lines.push(name === "Authorization" ? `-H "Authorization: Bearer $${form?.dataset.variable}"` : `-H ${inShell(`${name}: ${value}`)}`);
  if (body) lines.push(`-d ${inShell(body)}`);
  // Also mask an API key that was pasted into another field.
  return lines.join(" \\\n  ").replaceAll(/\b([a-z0-9_]{2,16})_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}\b/g, "$1_...");
}

function show(box: string, code: string, text: string): void {
  const [frame, place] = [one(box), one(code)];
  if (frame) frame.hidden = false;
  if (place) place.textContent = text;
}

/** Formats JSON with indentation. Returns any other text unchanged. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Returns whether a form was sent by the button that confirms the sign-in in another tab. */
const isConfirmation = ({ submitter }: SubmitEvent): boolean => submitter?.hasAttribute("formtarget") ?? false;

for (const part of document.querySelectorAll<HTMLElement>("[data-needs-script]")) part.hidden = false;

// The reference is a page without an origin, in a tab of its own. It asks this page once for a secret, with a text that only the two of them know.
one<HTMLFormElement>("[data-reference]")?.addEventListener("submit", (event) => {
  if (isConfirmation(event)) return;
  event.preventDefault();
  const channel = crypto.randomUUID();
  const opened = open(`/docs/reference#${channel}`);
  if (opened === null) return location.assign("/docs/reference");
  const answer = async ({ source, data, ports }: MessageEvent) => {
    if (source !== opened || data !== channel) return;
    removeEventListener("message", answer);
    const name = sendAs?.selectedOptions[0]?.textContent;
    // A port ends with the page that made it. No page that follows in the tab hears it.
    ports[0]?.postMessage({ secretKey: await temporarySecret(), name });
  };
  addEventListener("message", answer);
});

if (form) {
  form.hidden = false;
  const without = one("[data-without-script]");
  if (without) without.hidden = true;
  // Fill in the path parameters from the query string of the page.
  const given = new URLSearchParams(location.search);
  for (const field of form.querySelectorAll<HTMLInputElement>('[data-in="path"]'))
    field.value = given.get(field.dataset.name ?? "") ?? field.value;
  form.addEventListener("submit", async (event) => {
    if (isConfirmation(event)) return;
    event.preventDefault();
    say("");
    const call = await callIn(form);
    if (typeof call === "string") {
      for (const box of ["[data-response-box]", "[data-request-box]"]) one(box)?.setAttribute("hidden", "");
      return say(call);
    }
    show("[data-request-box]", "[data-command]", commandOf(call));
    const startedAt = performance.now();
    try {
      const { url, method, headers, body } = call;
      const response = await fetch(url, { method, headers, ...(body && { body }), cache: "no-store", credentials: "omit" });
      if (response.status === 401) forgetTemporarySecret();
      const text = await response.text();
      const took = Math.round(performance.now() - startedAt);
      const lines = [...response.headers].map(([name, value]) => `${name}: ${value}`);
      show(
        "[data-response-box]",
        "[data-answer]",
        [`${response.status} ${response.statusText}`, `after ${took} ms`, "", pretty(text), "", ...lines].join("\n"),
      );
      // The answer can be out of view.
      one("[data-response-box]")?.focus();
    } catch {
      say("There was no response. A header or the path may contain an unsupported character, or the service may not be reachable.");
    }
  });
}
