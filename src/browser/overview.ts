// What pages do with script. Everything that they are for works without it.

const { dataset } = document.documentElement;

// "/" leads to the search.
const search = document.querySelector<HTMLInputElement>("#search");
document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.key !== "/" || event.ctrlKey || event.metaKey || target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  search?.focus();
});

// Times in the zone of whoever looks, where that was chosen.
function writeTimes(root: ParentNode): void {
  if (dataset.zone !== "local") return;
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  for (const time of root.querySelectorAll<HTMLTimeElement>("time.moment")) time.textContent = local.format(new Date(time.dateTime));
}
writeTimes(document);

// Pressed twice, a form is sent once: what the first answers may be a secret, and the second would hide it.
document.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "sent";
});
// A page that comes back from the history may send its forms anew: the server knows them by their nonce.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-sent]")) delete form.dataset.sent;
});

// A secret that is shown once: copied, or said plainly that it was not.
const secret = document.querySelector<HTMLElement>("[data-secret]");
let isKept = secret === null;

for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.querySelector<HTMLElement>(button.dataset.copy ?? "");
    const said = button.parentElement?.querySelector<HTMLElement>("[data-copied]") ?? document.querySelector<HTMLElement>("[data-copied]");
    if (!source || !said) return;
    try {
      await navigator.clipboard.writeText(source.textContent ?? "");
      said.textContent = "Copied.";
      if (source === secret) isKept = true;
    } catch {
      const reveal = document.querySelector<HTMLInputElement>(".reveal input");
      if (reveal) reveal.checked = true;
      getSelection()?.selectAllChildren(source);
      said.textContent = "The browser did not let it be copied. It is selected: press Ctrl+C.";
    }
  });
}
for (const link of document.querySelectorAll("a[download]")) link.addEventListener("click", () => (isKept = true));
document.addEventListener("copy", () => {
  if (secret && getSelection()?.containsNode(secret, true)) isKept = true;
});
addEventListener("beforeunload", (event) => {
  if (!isKept) event.preventDefault();
});

/** Does something again and again while the page is looked at, at first every `fromMs`, then less and less often, down to every `toMs`. Ends where it answers false. */
function repeat(work: () => Promise<boolean>, fromMs: number, toMs: number): void {
  let waitMs = fromMs;
  const next = async () => {
    try {
      if (document.visibilityState === "visible" && !(await work())) return;
    } catch {
      // The next one may work.
    }
    waitMs = Math.min(waitMs * 1.2, toMs);
    setTimeout(next, waitMs);
  };
  setTimeout(next, waitMs);
}

/** What the server says in JSON; null where it has nothing to say yet. */
async function ask(path: string): Promise<{ text: string; href: string } | null> {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  return response.status === 200 ? response.json() : null;
}

function linkOf({ text, href }: { text: string; href: string }): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = href;
  link.textContent = text;
  return link;
}

// The line that waits for the first request of a new key.
for (const line of document.querySelectorAll<HTMLElement>("[data-live]"))
  repeat(
    async () => {
      const news = await ask(line.dataset.live ?? "");
      if (news) line.replaceChildren("✓ The first request is here: ", linkOf(news));
      return news === null;
    },
    1500,
    3000,
  );

// How many requests are newer than the list: it does not move by itself.
for (const pill of document.querySelectorAll<HTMLElement>("[data-news]"))
  repeat(
    async () => {
      const news = await ask(pill.dataset.news ?? "");
      pill.hidden = news === null;
      if (news) pill.replaceChildren(linkOf(news));
      return true;
    },
    5000,
    30_000,
  );

// Parts that move by themselves: read again from the page, unless somebody points at them, is in them or has paused them.
const parts = [...document.querySelectorAll<HTMLElement>("[data-refresh]")];
const pause = document.querySelector<HTMLButtonElement>("button[data-pause]");
if (pause && parts.length > 0) {
  const policy = (
    window as unknown as {
      trustedTypes?: { createPolicy(name: string, rules: { createHTML(text: string): string }): { createHTML(text: string): string } };
    }
  ).trustedTypes?.createPolicy("overview", { createHTML: (text) => text });
  let isPaused = false;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Go on" : "Pause";
  });
  repeat(
    async () => {
      if (isPaused) return true;
      const text = await (await fetch(location.href)).text();
      const fresh = new DOMParser().parseFromString((policy?.createHTML(text) ?? text) as string, "text/html");
      for (const part of document.querySelectorAll<HTMLElement>("[data-refresh]")) {
        const other = fresh.getElementById(part.id);
        if (!other || part.matches(":hover, :focus-within") || part.outerHTML === other.outerHTML) continue;
        writeTimes(other);
        part.replaceWith(document.importNode(other, true));
      }
      return true;
    },
    5000,
    30_000,
  );
}
