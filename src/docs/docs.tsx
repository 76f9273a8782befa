import { Hono } from "hono";
import { accepts } from "hono/accepts";
import { raw } from "hono/html";
import { PageScript, showPage } from "../dashboard/components/layout.tsx";
import { Empty } from "../dashboard/components/notice.tsx";
import type { PageContext, PageEnv } from "../dashboard/context.ts";
import { isAtThisMachine } from "../dashboard/visitor.ts";
import type { EventCatalogue } from "../events/catalogue.ts";
import { maskKeys } from "../keys/mask-keys.ts";
import { type JsonObject, operationsIn, readOpenApi } from "../openapi-document.ts";
import { docPages } from "./catalogue.ts";
import { Console } from "./console.tsx";
import { Contents } from "./contents.tsx";
import { apiCatalog, llmsText, securityText } from "./machine.ts";
import { readOwnIds } from "./own-ids.ts";
import type { DocPage } from "./page.ts";
import { renderMarkdown } from "./render.ts";
import { type Found, mostFound, nearestPages, searchPages } from "./search.ts";

/** Which paths the documentation answers: all of them are open. */
export const isDocumentation = (path: string): boolean =>
  /^\/docs(?:\.md)?(?:\/|$)/.test(path) || ["/llms.txt", "/.well-known/security.txt", "/.well-known/api-catalog"].includes(path);

/** The documentation: pages for people, the same as Markdown, and what machines look for. */
export function createDocs(catalogue: EventCatalogue) {
  const docs = new Hono<PageEnv>();

  const read = async (c: PageContext) => {
    const document = await readOpenApi(c.env, c.get("url"));
    const { origin, pathname } = c.get("url");
    // Only the samples of operations name ids.
    const ids = pathname.startsWith("/docs/api/") ? await readOwnIds(c, catalogue) : null;
    return { document, pages: docPages(document, catalogue, { origin, ids }) };
  };

  // What is left of a path that was cut short.
  docs.on("GET", ["/docs/", "/docs/api", "/docs/guides", "/docs/errors", "/docs/events", "/docs/schemas"], (c) => {
    const part = { api: "#reference", guides: "#guides", errors: "#errors", events: "#events", schemas: "#schemas" };
    return c.redirect(`/docs${part[c.get("url").pathname.slice("/docs/".length) as keyof typeof part] ?? ""}`, 302);
  });

  docs.on("GET", ["/docs/search", "/docs/search.md"], async (c) => {
    const { pages } = await read(c);
    const text = c.req.query("q") ?? "";
    const found = searchPages(pages, text);
    if (c.get("url").pathname.endsWith(".md") || prefersMarkdown(c))
      return c.body(searchMarkdown(text, found, pages.length), 200, markdownHeaders);
    return showPage(
      c,
      { title: "Search the documentation", section: "Documentation", trail: [["Documentation", "/docs"]] },
      <>
        <Search text={text} />
        <section class="panel" aria-label="Found">
          {found.length === 0 ? (
            <Empty>
              {text.trim() === ""
                ? "Type what you look for: an operation, an error code, an event, a header."
                : nothingFound(text, pages.length)}
            </Empty>
          ) : (
            <ul class="lines">
              {found.map(({ page, line }) => (
                <li>
                  <a href={page.path}>{page.title}</a> <span class="quiet">{page.kind}</span>
                  <span class="quiet break">{line}</span>
                </li>
              ))}
            </ul>
          )}
          {found.length === mostFound && <p class="quiet">The best {mostFound} are shown. More words narrow it down.</p>}
        </section>
      </>,
    );
  });

  docs.on("GET", ["/docs", "/docs.md", "/docs/*"], async (c) => {
    const { document, pages } = await read(c);
    const { pathname } = c.get("url");
    const path = pathname.replace(/\.md$/, "");
    const page = pages.find((each) => each.path === path);
    const isMarkdown = pathname.endsWith(".md") || prefersMarkdown(c);
    if (!page) return isMarkdown ? c.body(missingMarkdown(pages, path), 404, markdownHeaders) : showMissing(c, pages, path);
    if (isMarkdown) return c.body(`${page.markdown}\n`, 200, markdownHeaders);
    return showDoc(c, { page, pages, document });
  });

  docs.get("/llms.txt", async (c) => c.text(llmsText((await read(c)).pages, c.get("url").origin)));

  docs.get("/.well-known/security.txt", (c) =>
    c.text(securityText({ contact: c.env.SECURITY_CONTACT, expires: c.env.SECURITY_EXPIRES, origin: c.get("url").origin })),
  );

  docs.get("/.well-known/api-catalog", (c) => {
    const { origin } = c.get("url");
    return c.body(JSON.stringify(apiCatalog(origin)), 200, {
      "Content-Type": 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
      Link: `<${origin}/.well-known/api-catalog>; rel="api-catalog"`,
    });
  });

  return docs;
}

const markdownHeaders = { "Content-Type": "text/markdown; charset=utf-8", Vary: "Accept" };

/** Whether a client likes Markdown better than HTML, by the weights that it gives. */
const prefersMarkdown = (c: PageContext): boolean =>
  accepts(c, { header: "Accept", supports: ["text/html", "text/markdown"], default: "text/html", match: byWeight }) === "text/markdown";

/** The type with the highest weight; of equals the one that is named first. A wildcard is HTML. */
function byWeight(accepted: { type: string; q: number }[], { supports, default: usual }: { supports: string[]; default: string }): string {
  const liked = accepted.filter(({ type, q }) => q > 0 && supports.includes(type)).toSorted((a, b) => b.q - a.q);
  return liked[0]?.type ?? usual;
}

const nothingFound = (text: string, count: number) =>
  `Nothing has “${text}”. ${count} pages were looked through: guides, operations, events, errors and schemas.`;

const linkTo = ({ title, path, kind }: DocPage) => `- [${title}](${path}.md) (${kind})`;

const searchMarkdown = (text: string, found: readonly Found[], count: number) =>
  `# Search the documentation\n\n${found.length === 0 ? nothingFound(text, count) : found.map(({ page, line }) => `${linkTo(page)}: ${line}`).join("\n")}\n`;

const missingMarkdown = (pages: readonly DocPage[], path: string) =>
  `# There is no such page\n\nNothing is at \`${maskKeys(path)}\`. The nearest pages:\n\n${nearestPages(pages, path).map(linkTo).join("\n")}\n`;

const Search = ({ text = "" }: { text?: string }) => (
  <search>
    <form class="filters" method="get" action="/docs/search">
      <label class="unseen" for="docs-search">
        Search the documentation
      </label>
      <input id="docs-search" class="grow" name="q" type="search" value={text} placeholder="Search operations, guides, errors and events" />
      <button type="submit">Search</button>
    </form>
  </search>
);

/** A page, with the console where it is one of an operation. */
function showDoc(c: PageContext, { page, pages, document }: { page: DocPage; pages: readonly DocPage[]; document: JsonObject }) {
  c.header("Vary", "Accept");
  const place =
    page.kind === "Operation" ? operationsIn(document).find(({ operation }) => page.path.endsWith(`/${operation.operationId}`)) : undefined;
  const demoKey = c.get("isLocal") && isAtThisMachine(c) ? c.env.DEMO_API_KEY : undefined;
  return showPage(
    c,
    {
      title: page.title,
      section: "Documentation",
      trail: page.path === "/docs" ? [] : [["Documentation", "/docs"]],
      action: (
        <>
          {place && <a href="#try-it">Try it</a>}
          <a href={`${page.path}.md`}>As Markdown</a>
        </>
      ),
    },
    <>
      <Search />
      <div class="documentation">
        <div>
          <article class="panel prose">{raw(renderMarkdown(page.markdown))}</article>
          {place && <Console document={document} {...place} demoKey={demoKey} given={(name) => c.req.query(name)} />}
        </div>
        {page.path !== "/docs" && <Contents document={document} pages={pages} path={page.path} />}
      </div>
      {place && <PageScript name="console" c={c} />}
    </>,
  );
}

function showMissing(c: PageContext, pages: readonly DocPage[], path: string) {
  return showPage(
    c,
    { title: "There is no such page", section: "Documentation", trail: [["Documentation", "/docs"]], status: 404 },
    <>
      <Search />
      <section class="panel" aria-labelledby="near">
        <p>
          Nothing is at <code class="break">{maskKeys(path)}</code>.
        </p>
        <h2 id="near">The nearest pages</h2>
        <ul class="lines">
          {nearestPages(pages, path).map((page) => (
            <li>
              <a href={page.path}>{page.title}</a> <span class="quiet">{page.kind}</span>
            </li>
          ))}
        </ul>
      </section>
    </>,
  );
}
