// This script adds to the page of the request log: a request opens beside the list, keys move through the list, and a span of the histogram can be selected.

import { enhance } from "./parts/enhance.ts";

const log = document.querySelector<HTMLElement>("[data-log]");
const list = log?.dataset.log ?? "/activity";

/** The request for the latest address. */
let request: XMLHttpRequest | undefined;

/** Returns the page at an address, and breaks off the request before it. A request for a document needs no policy of Trusted Types. */
const pageAt = (address: string) =>
  new Promise<Document | null>((resolve, reject) => {
    request?.abort();
    request = new XMLHttpRequest();
    request.responseType = "document";
    request.addEventListener("load", ({ target }) => resolve((target as XMLHttpRequest).responseXML));
    request.addEventListener("error", reject);
    request.open("GET", address);
    request.send();
  });

const rows = () => [...document.querySelectorAll<HTMLAnchorElement>(".activity a.whole")];
const idOf = (link: HTMLAnchorElement) => link.pathname.split("/").at(-1) ?? "";

/** Returns the address of the list with a request open beside it. */
function addressOf(id: string): string {
  const url = new URL(list, location.href);
  url.searchParams.set("open", id);
  return url.pathname + url.search;
}

/** The number of addresses that were asked for. A page that arrives after the reader has gone on is not shown. */
let asked = 0;

/** Shows what an address of the list has beside the list. Returns false if the reader has gone on in the meantime. */
async function show(address: string): Promise<boolean> {
  if (!log) return false;
  const number = ++asked;
  choose(new URL(address, location.href).searchParams.get("open"));
  log.ariaBusy = "true";
  const page = await pageAt(address).catch(() => null);
  const fresh = page?.querySelector("#side");
  const side = document.querySelector<HTMLElement>("#side");
  if (number !== asked || !side) return false;
  log.ariaBusy = null;
  // The browser then opens the address, and says what is wrong.
  if (!fresh) {
    location.assign(address);
    return false;
  }
  const isOpen = !fresh.hasAttribute("hidden");
  const shown = document.importNode(fresh, true);
  enhance(shown);
  side.replaceWith(shown);
  log.classList.toggle("with-side", isOpen);
  return true;
}

/** Marks the row of the open request. Marks no row if `open` is null. */
function choose(open: string | null): void {
  for (const link of rows()) {
    const isChosen = idOf(link) === open;
    link.closest("tr")?.classList.toggle("chosen", isChosen);
    if (isChosen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

async function go(address: string): Promise<void> {
  if (await show(address)) history.pushState(null, "", address);
}

/** Shows an address in place of the present one. "Back" then leads to the list, however many requests the reader has walked through. */
async function replace(address: string): Promise<void> {
  if (await show(address)) history.replaceState(null, "", address);
}

async function open(link: HTMLAnchorElement): Promise<void> {
  await go(addressOf(idOf(link)));
  document.querySelector<HTMLElement>("#beside")?.focus();
}

async function close(): Promise<void> {
  const chosen = document.querySelector<HTMLAnchorElement>(".activity .chosen a.whole");
  await go(list);
  chosen?.focus();
}

addEventListener("popstate", () => void show(location.pathname + location.search));

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  const link = (event.target as Element).closest<HTMLAnchorElement>(".activity a.whole, #side [data-close]");
  // On a narrow screen, there is no room beside the list: the request opens on its own page.
  if (!link || !log || (link.matches(".whole") && !matchMedia("(min-width: 64rem)").matches)) return;
  event.preventDefault();
  if (link.matches("[data-close]")) void close();
  else void open(link);
});

/** Moves to the next or the previous request. If a request is open, opens that one in its place. */
function move(step: 1 | -1): void {
  const links = rows();
  const focused = links.indexOf(document.activeElement as HTMLAnchorElement);
  const at = focused >= 0 ? focused : links.findIndex((link) => link.matches("[aria-current]"));
  const next = links[Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  if (next && log?.classList.contains("with-side")) void replace(addressOf(idOf(next)));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).closest("input, textarea, select")) return;
  const key = event.key.toLowerCase();
  if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (event.key === "Escape" && log?.classList.contains("with-side")) void close();
});
