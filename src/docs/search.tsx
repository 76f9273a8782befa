import { Hono } from "hono";
import { idInKey } from "../credentials/key-format.ts";
import { maskKeys } from "../credentials/mask-keys.ts";
import { needs } from "../dashboard/access/needs.ts";
import { visitorMay } from "../dashboard/access/permissions.tsx";
import { showPage, uncached } from "../dashboard/components/layout.tsx";
import { Empty } from "../dashboard/components/notice.tsx";
import type { PageContext, PageEnv } from "../dashboard/context.ts";
import { readKeyChoices } from "../dashboard/key-choices.ts";
import { snapshotContext } from "../dashboard/operation-contexts.ts";
import { type Suggestion, wantsJson } from "../dashboard/suggestions.ts";
import { folded } from "../lib/inputs/fold.ts";
import { listWebhooks } from "../webhooks/subscriptions/read-webhooks.ts";
import { maxWebhooks } from "../webhooks/subscriptions/write-webhooks.ts";
import { library } from "./library.ts";
import { maxQueryCharacters, maxQueryWords, maxSuggestions, queryWordsOf, suggestionOf } from "./search-index.ts";

/** The pages that the visitor may open. */
const pagesOf = (c: PageContext): (readonly [name: string, path: string])[] => [
  ["Overview", "/"],
  ["Usage", "/usage"],
  ["Limits", "/limits"],
  ["API Keys", "/keys"],
  ...(visitorMay(c, "keys") ? ([["Create a key", "/keys/new"]] as const) : []),
  ["Webhooks", "/webhooks"],
  ...(visitorMay(c, "webhooks") ? ([["Add a webhook", "/webhooks/new"]] as const) : []),
  ["Activity", "/activity"],
  ["Documentation", "/docs"],
  ["Settings", "/settings"],
  ["Members", "/settings#members"],
  ...(visitorMay(c, "members") && c.get("visitor").signedIn ? ([["Invite a member", "/settings#members"]] as const) : []),
  ...(c.get("visitor").signedIn
    ? ([
        ["Sessions", "/settings#sessions"],
        ["Passkeys and recovery codes", "/settings#sign-in"],
      ] as const)
    : []),
  ...(visitorMay(c, "audit") ? ([["Audit log", "/settings/audit"]] as const) : []),
];

const byId: readonly (readonly [form: RegExp, path: string, kind: string])[] = [
  [/^req_[0-9a-f]{32}$/, "/activity/", "Request"],
  [/^key_[0-9A-Za-z]{16}$/, "/keys/", "API key"],
  [/^whk_[0-9a-f]{32}$/, "/webhooks/", "Webhook"],
  [/^dlv_[0-9a-f]+$/, "/deliveries/", "Delivery"],
];

/** The maximum number of pages of the documentation among the results. */
const maxDocs = 20;

/** What a search has found. `isCut`: whether more pages of the documentation match. */
interface Results {
  found: Suggestion[];
  isCut: boolean;
}

/** Finds the keys, webhooks, pages and pages of the documentation that contain a text. The text is not empty. */
async function find(c: PageContext, text: string): Promise<Results> {
  const context = await snapshotContext(c);
  const [keys, webhooks] = await Promise.all([readKeyChoices(context), listWebhooks(context, { limit: maxWebhooks })]);
  const wanted = folded(text);
  const has = (...parts: string[]) => parts.some((part) => folded(part).includes(wanted));
  // If the text is a full secret key, search only for its id.
  const keyId = idInKey(text);
  const words = keyId !== null || text.length > maxQueryCharacters ? [] : queryWordsOf(text);
  const isNamed = (name: string) => queryWordsOf(name).every((part) => part.length < 3 || words.some((word) => part.startsWith(word)));
  const shownPages = pagesOf(c).filter(([name]) => has(name) || isNamed(name));
  const docs = words.length > maxQueryWords ? [] : library().search.find(words);
  const found = [
    ...(/^[1-5]\d\d$/.test(text) ? [{ kind: "Requests", name: `Requests with status ${text}`, path: `/activity?status=${text}` }] : []),
    ...keys
      .filter(({ id, name, last4 }) => has(name, id, last4, id.slice("key_".length)) || id === keyId)
      .map(({ id, name }) => ({ kind: "API key", name, path: `/keys/${id}` })),
    ...webhooks
      .filter(({ id, url, description }) => has(url, description, id))
      .map(({ id, url }) => ({ kind: "Webhook", name: url, path: `/webhooks/${id}` })),
    ...shownPages.map(([name, path]) => ({ kind: "Page", name, path })),
    ...docs
      .slice(0, maxDocs)
      .map(suggestionOf)
      .filter(({ path }) => !shownPages.some(([, shown]) => shown === path)),
  ];
  return { found, isCut: docs.length > maxDocs };
}

/** Returns the page that a text names: the id of a resource, or the path of requests, for example "GET /api/v1/tasks". */
function named(text: string): Suggestion | null {
  const direct = byId.find(([form]) => form.test(text));
  if (direct) return { kind: direct[2], name: text, path: direct[1] + text };
  const [, method, path] = /^(?:(GET|HEAD|POST|PUT|PATCH|DELETE)\s+)?(\/\S+)$/i.exec(text) ?? [];
  if (!path) return null;
  return {
    kind: "Requests",
    name: text,
    path: `/activity?${new URLSearchParams({ ...(method && { method: method.toUpperCase() }), path })}`,
  };
}

/** Returns what the search field suggests: the best results, and the page with all results if there are more. */
const suggestionsOf = (text: string, found: readonly Suggestion[]): Suggestion[] =>
  found.length <= maxSuggestions
    ? [...found]
    : [...found.slice(0, maxSuggestions - 1), { kind: "Search", name: "All results", path: `/search?${new URLSearchParams({ q: text })}` }];

/**
 * Finds keys, webhooks, requests, pages and documentation. Redirects to the result if there is only one result. The script of the search field
 * gets the results as JSON.
 */
export const searchPages = new Hono<PageEnv>().get("/search", needs("session"), async (c) => {
  const text = (c.req.query("q") ?? "").trim();
  const direct = named(text);
  const { found, isCut } = direct || text === "" ? { found: direct ? [direct] : [], isCut: false } : await find(c, text);
  if (wantsJson(c)) return c.json({ results: suggestionsOf(text, found) }, 200, uncached);
  const [only] = found;
  if (found.length === 1 && only) return c.redirect(only.path, 303);
  return showPage(
    c,
    { title: text === "" ? "Search" : `Search: ${maskKeys(text)}`, searched: maskKeys(text) },
    <section class="panel" aria-label="Found">
      {found.length === 0 ? (
        <Empty>
          {text === ""
            ? "Type the name of a key, a URL, an id, a page, or words of the documentation."
            : "No results. The id of a request, key, webhook or delivery opens its page. A path, for example GET /api/v1/usage, opens its requests."}
        </Empty>
      ) : (
        <ul class="lines">
          {found.map(({ kind, name, path }) => (
            <li>
              <a href={path}>
                <bdi>{name}</bdi>
              </a>{" "}
              <span class="quiet">{kind}</span>
            </li>
          ))}
        </ul>
      )}
      {found.length > 0 && (
        <p>
          {isCut && `The best ${maxDocs} pages of the documentation are shown. `}
          <a href={`/docs/search?${new URLSearchParams({ q: text })}`}>Search only the documentation for “{maskKeys(text)}”</a>
        </p>
      )}
    </section>,
  );
});
