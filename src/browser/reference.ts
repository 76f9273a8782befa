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

addEventListener("DOMContentLoaded", () => {
  const { Scalar, reference } = window as unknown as { Scalar: Reference; reference: { content: { components?: object } } };
  const { theme } = document.documentElement.dataset;
  const isDark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  Scalar.createApiReference("#reference", {
    ...reference,
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
