import { type Context, Hono } from "hono";
import { raw } from "hono/html";
import { PageScript, showPage } from "../dashboard/components/layout.tsx";
import { Empty } from "../dashboard/components/notice.tsx";
import type { PageContext, PageEnv } from "../dashboard/context.ts";
import { isAtThisMachine } from "../dashboard/visitor.ts";
import type { EventCatalogue } from "../events/catalogue.ts";
import { type JsonObject, operationsIn, readOpenApi } from "../openapi-document.ts";
import { docPages } from "./catalogue.ts";
import { Console } from "./console.tsx";
import { Contents } from "./contents.tsx";
import { apiCatalog, llmsText, securityText } from "./machine.ts";
import type { DocPage } from "./page.ts";
import { renderMarkdown } from "./render.ts";
import { nearestPages, searchPages } from "./search.ts";

/** Which paths the documentation answers: all of them are open. */
export const isDocumentation = (path: string): boolean =>
  /^\/docs(?:\.md)?(?:\/|$)/.test(path) || ["/llms.txt", "/.well-known/security.txt", "/.well-known/api-catalog"].includes(path);

/** The documentation: pages for people, the same as Markdown, and what machines look for. */
export function createDocs(catalogue: EventCatalogue) {
  const docs = new Hono<PageEnv>();

  const read = async (c: PageContext) => {
    const document = await readOpenApi(c.env, c.get("url"));
    return { document, pages: docPages(document, catalogue, c.get("url").origin) };
  };

  docs.get("/docs/search", async (c) => {
    const { pages } = await read(c);
    const text = c.req.query("q") ?? "";
    const found = searchPages(pages, text);
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
                : `Nothing has “${text}”. ${pages.length} pages were looked through: guides, operations, events, errors and schemas.`}
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
    if (!page) return isMarkdown ? c.text(`No page is at ${path}.\n`, 404, markdownHeaders) : showMissing(c, pages, path);
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

/** Whether a client asks for Markdown, and not for HTML as well as that. */
const prefersMarkdown = (c: Context): boolean => {
  const accepted = (c.req.header("Accept") ?? "").toLowerCase();
  return accepted.includes("text/markdown") && !accepted.includes("text/html");
};

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
      action: <a href={`${page.path}.md`}>As Markdown</a>,
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
          Nothing is at <code class="break">{path}</code>.
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
