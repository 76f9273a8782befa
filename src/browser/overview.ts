import { age, ahead } from "../lib/time/relative-time.ts";
import { enhance, writeTimes } from "./parts/enhance.ts";
import { framedBy, ofFrame } from "./parts/frame.ts";
import { makeSuggesting } from "./parts/suggest.ts";

// This script adds conveniences to every page. Every page also works without the script.

// The keys "/" and Ctrl K (on a Mac, Command K) move the focus to the search field.
const search = [...document.querySelectorAll<HTMLInputElement>("#search, #docs-search")].find((each) => each.checkVisibility());
document.addEventListener("keydown", (event) => {
  const isCommand = event.ctrlKey || event.metaKey;
  const isTyping = (event.target as HTMLElement).closest("input, textarea, select, [contenteditable]") !== null;
  if (!(isCommand ? event.key.toLowerCase() === "k" : event.key === "/" && !isTyping) || !search) return;
  event.preventDefault();
  search.focus();
  search.select();
});
for (const input of document.querySelectorAll<HTMLInputElement>("input[data-suggest]")) makeSuggesting(input);

// The key "?" shows the keys.
const keys = { "/ or Ctrl K": "search", "J and K": "the next and the previous request of a log", Enter: "open it", Esc: "close this" };
document.addEventListener("keydown", (event) => {
  if (event.key !== "?" || (event.target as HTMLElement).closest("input, textarea, select, dialog")) return;
  const dialog = document.createElement("dialog");
  dialog.ariaLabel = "Keys";
  const list = document.createElement("dl");
  for (const [key, what] of Object.entries(keys)) {
    const [name, value] = [document.createElement("dt"), document.createElement("dd")];
    [name.textContent, value.textContent] = [key, what];
    list.append(name, value);
  }
  dialog.append(list);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});

// On a narrow screen, scroll the navigation to the current section.
document.querySelector("nav.main [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Scroll the navigation of the documentation to the current page if it is below an edge, and scroll nothing else.
for (const contents of document.querySelectorAll<HTMLElement>(".contents")) {
  const current = contents.querySelector<HTMLElement>("[aria-current]");
  const edge = Math.min(contents.getBoundingClientRect().bottom, innerHeight);
  const below = current ? current.getBoundingClientRect().bottom - edge : 0;
  if (below > 0) contents.scrollTop = below + contents.clientHeight / 2;
}

enhance(document);

// Update relative times, for example "3 minutes ago", every 30 seconds.
setInterval(() => {
  const now = Date.now();
  writeTimes(document, "time.age", (timeMs) => age(timeMs, now));
  writeTimes(document, "time.ahead", (timeMs) => ahead(timeMs, now));
}, 30_000);

// A scope preset selects its checkboxes without loading a new page, so the form keeps all other input.
for (const link of document.querySelectorAll<HTMLAnchorElement>("a[data-ticks]"))
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const ticked = link.dataset.ticks?.split(" ") ?? [];
    for (const box of document.querySelectorAll<HTMLInputElement>('input[name="scopes"]')) box.checked = ticked.includes(box.value);
  });

// A button fills in the time of expiry, in UTC as the label of the field says.
const dayMs = 86_400_000;
for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-expires-in]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const field = document.querySelector<HTMLInputElement>('input[name="expires_at"]');
    if (field) field.value = new Date(Date.now() + Number(button.dataset.expiresIn) * dayMs).toISOString().slice(0, 16);
  });
}

// Submit each form only once. Only the first response can show a one-time secret, and a second response would replace that page.
document.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "sent";
});
// If the browser restores a page from its history, let the reader submit the forms again. The server detects a repeated submission by the
// form's nonce.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-sent]")) delete form.dataset.sent;
});

// Ask for confirmation if the reader leaves without copying or downloading a one-time secret.
const secret = document.querySelector<HTMLElement>("[data-secret]");
let isKept = secret === null;

document.addEventListener("click", async (event) => {
  const button = (event.target as Element).closest<HTMLButtonElement>("button[data-copy]");
  if (!button) return;
  const source = document.querySelector<HTMLElement>(button.dataset.copy ?? "");
  const status = button.parentElement?.querySelector<HTMLElement>("[data-copied]") ?? document.querySelector<HTMLElement>("[data-copied]");
  if (!source || !status) return;
  try {
    await navigator.clipboard.writeText(source.textContent ?? "");
    status.textContent = "Copied.";
    if (secret && source.textContent?.includes(secret.textContent ?? "")) isKept = true;
  } catch {
    const reveal = document.querySelector<HTMLInputElement>(".reveal input");
    if (reveal) reveal.checked = true;
    getSelection()?.selectAllChildren(source);
    status.textContent = "The browser did not allow copying. The text is selected: press Ctrl+C.";
  }
});
for (const link of document.querySelectorAll("a[download]")) link.addEventListener("click", () => (isKept = true));
document.addEventListener("copy", () => {
  if (secret && getSelection()?.containsNode(secret, true)) isKept = true;
});
addEventListener("beforeunload", (event) => {
  if (!isKept) event.preventDefault();
});

/**
 * Calls `work` repeatedly while the page is visible. The first delay is `fromMs`, and each delay is 1.2 times the previous one, up to `toMs`. Stops
 * when `work` returns false.
 */
function repeat(work: () => Promise<boolean>, fromMs: number, toMs: number): void {
  let waitMs = fromMs;
  const next = async () => {
    try {
      if (document.visibilityState === "visible" && !(await work())) return;
    } catch {
      // Ignore the error, because the next call may succeed.
    }
    waitMs = Math.min(waitMs * 1.2, toMs);
    setTimeout(next, waitMs);
  };
  setTimeout(next, waitMs);
}

// In a frame, the page around it learns the height. The message has the form that svix-react reads.
new ResizeObserver(() => {
  if (framedBy === undefined) return;
  const payload = { height: document.documentElement.offsetHeight };
  parent.postMessage({ type: "svix.iframe-resizer-height", payload }, framedBy);
}).observe(document.documentElement);

// A frame continues by itself. Only the team's origins can show it, so nobody else can sign a reader in.
document.querySelector<HTMLFormElement>("form[data-continue]")?.requestSubmit();

/** Returns the JSON body of a response with status 200, or null for any other status. */
async function ask(path: string): Promise<{ text: string; href: string } | null> {
  const response = await fetch(path, { headers: { ...ofFrame, Accept: "application/json" } });
  return response.status === 200 ? response.json() : null;
}

function linkOf({ text, href }: { text: string; href: string }): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = href;
  link.textContent = text;
  return link;
}

const policy = (
  window as unknown as {
    trustedTypes?: { createPolicy(name: string, rules: { createHTML(text: string): string }): { createHTML(text: string): string } };
  }
).trustedTypes?.createPolicy("overview", { createHTML: (text) => text });

/** Returns a page of this service as it is now. */
async function pageAt(url: string): Promise<Document> {
  const text = await (await fetch(url, { headers: ofFrame })).text();
  return new DOMParser().parseFromString((policy?.createHTML(text) ?? text) as string, "text/html");
}

/** Returns a part of another page, ready for this one. */
function adopted(part: HTMLElement): HTMLElement {
  const own = document.importNode(part, true);
  enhance(own);
  return own;
}

// Poll until the first request with a new API key arrives. Then replace the waiting message with a link to the request, and show what the overview says of it.
for (const line of document.querySelectorAll<HTMLElement>("[data-live]"))
  repeat(
    async () => {
      const news = await ask(line.dataset.live ?? "");
      if (!news) return true;
      line.replaceChildren("✓ The first request is here: ", linkOf(news));
      const part = (await pageAt("/")).getElementById("first-request");
      if (part) document.querySelector("[data-first-request]")?.replaceChildren(adopted(part));
      return false;
    },
    1500,
    3000,
  );

// The Pause button stops the count of new requests and the updates of `data-refresh` parts.
let isPaused = false;
for (const pause of document.querySelectorAll<HTMLButtonElement>("button[data-pause]")) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Resume" : "Pause";
  });
}

// Show how many requests are newer than the list, because the list does not update automatically. A screen reader announces the number at
// most every 30 seconds.
const readOutMs = 30_000;
for (const pill of document.querySelectorAll<HTMLElement>("[data-news]")) {
  const aloud = document.querySelector("[data-news-aloud]");
  let readOutAt = Number.NEGATIVE_INFINITY;
  repeat(
    async () => {
      if (isPaused) return true;
      const news = await ask(pill.dataset.news ?? "");
      pill.hidden = news === null;
      if (!news) return true;
      pill.replaceChildren(linkOf(news));
      if (aloud && performance.now() - readOutAt >= readOutMs && aloud.textContent !== news.text) {
        aloud.textContent = news.text;
        readOutAt = performance.now();
      }
      return true;
    },
    5000,
    30_000,
  );
}

// Fetch the page again and replace its `data-refresh` parts. Do not replace a part that has the pointer or the focus.
const partsOf = (root: ParentNode) => [...root.querySelectorAll<HTMLElement>("[data-refresh]")];
if (partsOf(document).length > 0) {
  /** The HTML of each part as it was last received. Scripts change the part on the page. */
  const received = new Map<string, string>();
  repeat(
    async () => {
      if (isPaused) return true;
      const fresh = await pageAt(location.href);
      for (const part of partsOf(document)) {
        const other = fresh.getElementById(part.id);
        if (!other || part.matches(":hover, :focus-within")) continue;
        // Keep the open or closed state of each `details` element. Those of a list that grows have an id.
        const opened = new Map([...part.querySelectorAll("details")].map(({ id, open }, index) => [id || index, open]));
        for (const [index, details] of other.querySelectorAll("details").entries())
          details.open = opened.get(details.id || index) ?? details.open;
        if (received.get(part.id) === other.outerHTML) continue;
        received.set(part.id, other.outerHTML);
        part.replaceWith(adopted(other));
      }
      return partsOf(document).length > 0;
    },
    5000,
    30_000,
  );
}
