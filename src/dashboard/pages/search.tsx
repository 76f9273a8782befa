import { Hono } from "hono";
import { prefixOf } from "../../credentials/key-format.ts";
import { listWebhooks } from "../../webhooks/read-webhooks.ts";
import { maxWebhooks } from "../../webhooks/write-webhooks.ts";
import { showPage } from "../components/layout.tsx";
import { Empty } from "../components/notice.tsx";
import type { PageEnv } from "../context.ts";
import { readKeyChoices } from "../key-choices.ts";
import { needs } from "../needs.ts";
import { openLogContext } from "../operation-contexts.ts";

const pages = [
  ["Overview", "/"],
  ["Usage", "/usage"],
  ["API Keys", "/keys"],
  ["Create a key", "/keys/new"],
  ["Webhooks", "/webhooks"],
  ["Add a webhook", "/webhooks/new"],
  ["Activity", "/activity"],
  ["Documentation", "/docs"],
  ["Settings", "/settings"],
] as const;

/** The path of the page for each kind of id. */
const byId: readonly (readonly [form: RegExp, path: string])[] = [
  [/^req_[0-9a-f]{32}$/, "/activity/"],
  [/^key_[0-9A-Za-z]{16}$/, "/keys/"],
  [/^whk_[0-9a-f]{32}$/, "/webhooks/"],
  [/^dlv_[0-9a-f]+$/, "/deliveries/"],
];

/** Finds keys, webhooks, requests and pages. Redirects to the result if there is only one result. */
export const search = new Hono<PageEnv>().get("/search", needs("session"), async (c) => {
  const text = (c.req.query("q") ?? "").trim();
  const direct = byId.find(([form]) => form.test(text));
  if (direct) return c.redirect(direct[1] + text, 303);
  const context = await openLogContext(c);
  const [keys, webhooks] = await Promise.all([readKeyChoices(context), listWebhooks(context, { limit: maxWebhooks })]);
  const wanted = text.toLowerCase();
  const has = (...parts: string[]) => wanted !== "" && parts.some((part) => part.toLowerCase().includes(wanted));
  // If the text is a full secret key, search only for its public part.
  const publicPart = /^(dvo_[0-9A-Za-z]{16})_/.exec(text)?.[1];
  const found = [
    ...keys
      .filter(({ id, name, last4 }) => has(name, id, prefixOf(id), last4) || prefixOf(id) === publicPart)
      .map(({ id, name }) => ["API key", name, `/keys/${id}`] as const),
    ...webhooks
      .filter(({ id, url, description }) => has(url, description, id))
      .map(({ id, url }) => ["Webhook", url, `/webhooks/${id}`] as const),
    ...pages.filter(([name]) => has(name)).map(([name, path]) => ["Page", name, path] as const),
  ];
  // If the text is a path, redirect to the requests with this path. A method may come before the path, for example "GET /api/v1/tasks".
  const [, method, path] = /^(?:(GET|HEAD|POST|PUT|PATCH|DELETE)\s+)?(\/\S+)$/i.exec(text) ?? [];
  if (path) return c.redirect(`/activity?${new URLSearchParams({ ...(method && { method: method.toUpperCase() }), path })}`, 303);
  const [only] = found;
  if (found.length === 1 && only) return c.redirect(only[2], 303);
  return showPage(
    c,
    { title: "Search" },
    <section class="panel" aria-label="Found">
      {found.length === 0 ? (
        <Empty>
          {wanted === ""
            ? "Type the name of a key, a URL, an id or a page."
            : "No results. The id of a request, key, webhook or delivery opens its page. A path, for example GET /api/v1/usage, opens its requests."}
        </Empty>
      ) : (
        <ul class="lines">
          {found.map(([kind, name, path]) => (
            <li>
              <a href={path}>
                <bdi>{name}</bdi>
              </a>{" "}
              <span class="quiet">{kind}</span>
            </li>
          ))}
        </ul>
      )}
      {wanted !== "" && (
        <p>
          <a href={`/docs/search?${new URLSearchParams({ q: text })}`}>Search the documentation for “{text}”</a>
        </p>
      )}
    </section>,
  );
});
