import { Hono } from "hono";
import { raw } from "hono/html";
import { maskKeys } from "../credentials/mask-keys.ts";
import { readVisitor, shareOwner } from "../dashboard/access/session.ts";
import { mayBeSignedIn } from "../dashboard/access/session-cookie.ts";
import { framed, PageScript, showPage, uncached } from "../dashboard/components/layout.tsx";
import type { PageContext, PageEnv } from "../dashboard/context.ts";
import { preferencesOf } from "../dashboard/preferences.ts";
import type { AppContext } from "../http/context.ts";
import { withShare } from "../http/cpu-share.ts";
import { publicOrigin, urlOf } from "../http/request-url.ts";
import type { Build } from "../http/surface.ts";
import { brand } from "../lib/settings.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { unlessKnown } from "./caching.ts";
import { docsSearchPages, Search } from "./docs-search.tsx";
import { PageCache } from "./kept-pages.ts";
import { library, servedFrom } from "./library.ts";
import { apiCatalog, llmsText, robotsText, securityText, sitemapXml } from "./machine.ts";
import { markdownHeaders, prefersMarkdown } from "./markdown.ts";
import { readOwnIds, withOwnIds } from "./own-ids.ts";
import { type BuiltPage, type Heading, sendAsPlaceholder } from "./page.ts";
import { showReference } from "./reference.tsx";
import { readSendAs } from "./send-as.tsx";

/** The time that the documentation waits for the session of a member, in milliseconds. */
const sessionTimeoutMs = 2 * secondMs;

const machinePaths = ["/favicon.ico", "/llms.txt", "/robots.txt", "/sitemap.xml", "/.well-known/security.txt", "/.well-known/api-catalog"];

/** Returns whether a path belongs to the documentation, or is a public file of this service. */
export const isDocumentation = (path: string): boolean => /^\/docs(?:\.md)?(?:\/|$)/.test(path) || machinePaths.includes(path);

/** Creates the routes of the documentation: HTML pages, the same pages as Markdown, and files for programs, for example `/llms.txt`. */
export function createDocs({ isOpen }: Pick<Build, "isOpen">) {
  const docs = new Hono<PageEnv>();
  docs.use(async (c, next) => {
    c.set("isOpen", isOpen);
    // Anybody can read the documentation. A signed-in member has the account, the search and "Sign out" in the header, as on every page.
    // If the database hangs, the documentation responds without them. A visitor who is found too late is not set, because the page may be kept for others.
    const reading = isOpen || (await mayBeSignedIn(c)) ? readVisitor(c, { isOpen }) : null;
    const visitor = reading && (await withDeadline(reading, sessionTimeoutMs, "Reading the session").catch(() => null));
    if (visitor) c.set("visitor", visitor);
    await withShare(c as unknown as AppContext, shareOwner(c), next);
  });
  const kept = new PageCache();

  // Redirect a path without a page name, for example `/docs/api`, to the matching section of the start page.
  docs.on("GET", ["/docs/", "/docs/api", "/docs/guides", "/docs/errors", "/docs/events", "/docs/schemas"], (c) => {
    const part = { api: "#reference", guides: "#guides", errors: "#errors", events: "#events", schemas: "#schemas" };
    return c.redirect(`/docs${part[urlOf(c).pathname.slice("/docs/".length) as keyof typeof part] ?? ""}`, 302);
  });

  docs.route("/", docsSearchPages);
  if (brand.hasReference) docs.get("/docs/reference", showReference);

  docs.on("GET", ["/docs", "/docs.md", "/docs/*"], async (c) => {
    const { pathname } = urlOf(c);
    const path = pathname.replace(/\.md$/, "");
    const page = library().page(path);
    const isMarkdown = pathname.endsWith(".md") || prefersMarkdown(c);
    if (!page) return isMarkdown ? c.body(missingMarkdown(path), 404, markdownHeaders) : showMissing(c, path);
    const ids = page.kind === "Operation" ? await readOwnIds(c) : null;
    // Pages that contain ids of an account are never cached.
    const own = (text: string) => (ids === null ? text : withOwnIds(text, ids));
    if (isMarkdown) {
      c.header("Vary", "Accept");
      const unchanged = ids === null && unlessKnown(c, etagOf(c, "markdown"));
      return unchanged || c.body(`${servedFrom(own(page.markdown), publicOrigin(c))}\n`, 200, markdownHeaders);
    }
    return showDoc(c, page, { own, isPublic: ids === null, kept });
  });

  docs.get("/favicon.ico", (c) => unlessKnown(c, etagOf(c, "icon")) ?? c.redirect(brand.icon ?? "/icon.svg", 302));

  docs.get("/llms.txt", (c) => unlessKnown(c, etagOf(c, "text")) ?? c.text(llmsText(library().pages, publicOrigin(c))));

  docs.get("/robots.txt", (c) => unlessKnown(c, etagOf(c, "text")) ?? c.text(robotsText(publicOrigin(c))));

  docs.get("/sitemap.xml", (c) => {
    const unchanged = unlessKnown(c, etagOf(c, "xml"));
    if (unchanged) return unchanged;
    return c.body(sitemapXml(library().pages, publicOrigin(c)), 200, { "Content-Type": "application/xml; charset=utf-8" });
  });

  docs.get("/.well-known/security.txt", (c) => {
    const { SECURITY_CONTACT: contact, SECURITY_EXPIRES: expires }: { SECURITY_CONTACT: string; SECURITY_EXPIRES: string } = c.env;
    if (contact === "") return c.text("This deployment has no contact for security reports.\n", 404);
    return c.text(securityText({ contact, expires, origin: publicOrigin(c) }));
  });

  docs.get("/.well-known/api-catalog", (c) => {
    const origin = publicOrigin(c);
    return c.body(JSON.stringify(apiCatalog(origin)), 200, {
      "Content-Type": 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
      Link: `<${origin}/.well-known/api-catalog>; rel="api-catalog"`,
    });
  });

  return docs;
}

/** Returns a weak ETag. The response depends only on the Worker version, on the shown origin and on the values in `form`. */
const etagOf = (c: PageContext, ...form: string[]) => `W/"${[c.env.VERSION.id, ...form, publicOrigin(c)].join(".")}"`;

const missingMarkdown = (path: string) =>
  `# There is no such page\n\nThere is no page at \`${maskKeys(path)}\`. The [documentation](/docs.md) lists all pages.\n`;

/**
 * The options for showing a documentation page. `own` replaces example ids in a text with real ids of the account. `isPublic` is true if
 * the page contains no account data.
 */
interface Shown {
  own: (text: string) => string;
  isPublic: boolean;
  kept: PageCache;
}

/** Responds with a documentation page. The page of an operation also has the try-it console. */
async function showDoc(c: PageContext, page: BuiltPage, { own, isPublic, kept }: Shown) {
  c.header("Vary", "Accept, Cookie");
  const { theme, zone } = preferencesOf(c);
  const origin = publicOrigin(c);
  const isForEverybody = isPublic && c.get("visitor") === undefined;
  const unchanged = isForEverybody && unlessKnown(c, etagOf(c, "html", theme, zone, c.get("isOpen") ? "open" : "closed"));
  if (unchanged) return unchanged;
  const isHome = page.path === "/docs";
  const sendAs =
    page.console || (isHome && brand.hasReference)
      ? await readSendAs(c, isHome ? undefined : "Without an API key above, the request is sent as this key.")
      : null;
  if (isHome && sendAs) c.set("openerPolicy", "same-origin-allow-popups");
  const console = page.console && own(page.console).replace(sendAsPlaceholder, () => String(sendAs ?? ""));
  const make = () =>
    framed(
      c,
      {
        title: page.title,
        section: "Documentation",
        trail: isHome ? [] : [["Documentation", "/docs"]],
        action: (
          <>
            {!isHome && (
              <a class="to-contents" href="#contents">
                Contents
              </a>
            )}
            {isHome && brand.hasReference && <a href="/docs/reference">API reference</a>}
            {console && <a href="#try-it">Try it</a>}
            <a href={`${page.path}.md`}>As Markdown</a>
          </>
        ),
      },
      <>
        <Search text="" />
        {isHome && sendAs && (
          <form class="inline" method="get" action="/docs/reference" data-reference>
            {sendAs}
            <button type="submit">Open the API reference</button>
          </form>
        )}
        <div class={layoutOf(page)}>
          {page.intro && <div class="panel prose intro">{raw(own(page.intro))}</div>}
          {page.samples && (
            <aside class="beside" aria-label="Samples and console">
              <section class="panel">{raw(servedFrom(own(page.samples), origin))}</section>
              {console && raw(console)}
            </aside>
          )}
          <article class={isHome ? "prose" : "panel prose"}>{raw(servedFrom(own(page.html), origin))}</article>
          {!page.samples && <OnThisPage headings={page.headings} />}
          {!isHome && raw(library().contents(page.path))}
        </div>
        {(console || sendAs) && <PageScript name="console" c={c} />}
      </>,
    );
  if (!isForEverybody || urlOf(c).search !== "") return c.html(make(), 200, uncached);
  const name = [origin, page.path, theme, zone].join(" ");
  const nonce = c.get("secureHeadersNonce") ?? "";
  const known = kept.read(name, nonce);
  if (known !== undefined) return c.html(known, 200, uncached);
  const html = String(await make());
  kept.store(name, nonce, html);
  return c.html(html, 200, uncached);
}

/** The number of headings from which a page has links to its parts. */
const minHeadings = 3;

/** Returns the classes of the columns of a page. They are known before the columns arrive, so that nothing moves. */
function layoutOf({ path, samples, headings }: BuiltPage): string {
  if (path === "/docs") return "documentation";
  return `documentation with-contents ${samples ? "with-samples" : headings.length < minHeadings ? "" : "with-parts"}`.trim();
}

/** Renders links to the parts of a long page. */
const OnThisPage = ({ headings }: { headings: readonly Heading[] }) =>
  headings.length < minHeadings ? null : (
    <nav class="beside on-this-page" aria-label="On this page">
      <p>On this page</p>
      <ul>
        {headings.map(({ id, text }) => (
          <li>
            <a href={`#${id}`}>{raw(text)}</a>
          </li>
        ))}
      </ul>
    </nav>
  );

function showMissing(c: PageContext, path: string) {
  return showPage(
    c,
    { title: "There is no such page", section: "Documentation", trail: [["Documentation", "/docs"]], status: 404 },
    <>
      <Search text="" />
      <section class="panel">
        <p>
          There is no page at <code class="break">{maskKeys(path)}</code>. The <a href="/docs">documentation</a> lists all pages.
        </p>
      </section>
    </>,
  );
}
