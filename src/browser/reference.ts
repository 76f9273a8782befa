// Shows the OpenAPI document of the team's own API. The page has an origin of its own, where a browser gives no storage. Scalar needs one, so it gets one in
// memory: nothing is kept, not even a key that a reader has typed.

interface Reference {
  createApiReference(selector: string, options: object): void;
}

function memory(): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, String(value)),
    removeItem: (name) => void kept.delete(name),
    clear: () => kept.clear(),
    key: (index) => [...kept.keys()][index] ?? null,
    get length() {
      return kept.size;
    },
  };
}

for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { value: memory() });

/** The text with which this page asks the page that opened it for a secret. Scalar reads the fragment, too, so it must not stay there. */
const channel = location.hash.slice(1);
const isAsked = window.opener !== null && /^[0-9a-f-]{36}$/.test(channel);
if (isAsked) location.hash = "";
const waitMs = 5000;

/** Returns a secret of the key that the reader has chosen on the page before, and the name of the key. Asks once. */
function askForSecret(): Promise<{ secretKey: string | null; name: string | null }> {
  return new Promise((resolve) => {
    const nothing = { secretKey: null, name: null };
    if (!isAsked) return resolve(nothing);
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", ({ data }) => resolve(data));
    port1.start();
    window.opener.postMessage(channel, new URL(location.href).origin, [port2]);
    // A page that follows in this tab has no hold on the page that opened it.
    window.opener = null;
    setTimeout(() => resolve(nothing), waitMs);
  });
}

interface Scheme {
  type?: string;
  in?: string;
}

/** Returns the secret in the form that Scalar takes, for each way in which the document sends one in a header. A secret in an address would be logged. */
function authenticationWith(secretKey: string, schemes: Record<string, Scheme> = {}) {
  const inHeaders = Object.entries(schemes).filter(([, { type, in: where }]) => type === "http" || type === "basic" || where === "header");
  return {
    preferredSecurityScheme: inHeaders[0]?.[0] ?? null,
    securitySchemes: Object.fromEntries(
      inHeaders.map(([name, { type }]) => [name, type === "apiKey" ? { value: secretKey } : { token: secretKey, password: secretKey }]),
    ),
  };
}

addEventListener("DOMContentLoaded", async () => {
  const { secretKey, name } = await askForSecret();
  const line = document.querySelector("[data-sent-as]");
  if (line && isAsked)
    line.textContent =
      secretKey === null
        ? "Requests are sent without a key. Go back to the documentation, and open this page from there again."
        : `Requests are sent as ${name} for ten minutes.`;
  const { Scalar, reference } = window as unknown as {
    Scalar: Reference;
    reference: { content: { components?: { securitySchemes?: Record<string, Scheme> }; securityDefinitions?: Record<string, Scheme> } };
  };
  const { theme } = document.documentElement.dataset;
  const isDark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  Scalar.createApiReference("#reference", {
    ...reference,
    ...(secretKey !== null && {
      authentication: authenticationWith(secretKey, reference.content.components?.securitySchemes ?? reference.content.securityDefinitions),
    }),
    agent: { disabled: true },
    documentDownloadType: "none",
    forceDarkModeState: isDark ? "dark" : "light",
    hideClientButton: true,
    hideDarkModeToggle: true,
    mcp: { disabled: true },
    persistAuth: false,
    showDeveloperTools: "never",
    telemetry: false,
    theme: "none",
    withDefaultFonts: false,
  });
});
