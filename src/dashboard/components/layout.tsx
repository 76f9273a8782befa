import { raw } from "hono/html";
import type { Child, PropsWithChildren } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { maskKeys } from "../../credentials/mask-keys.ts";
import { urlOf } from "../../http/request-url.ts";
import { brand, productName, shownName, supportLink, teamName } from "../../lib/settings.ts";
import { giveWay } from "../../lib/time/turns.ts";
import { assets } from "../assets.ts";
import { type PageContext, returnUrlOf, type Visitor } from "../context.ts";
import { type Preferences, preferencesOf, type Theme } from "../preferences.ts";
import { Options } from "./fields.tsx";
import { NameLink } from "./name-link.tsx";
import { Note } from "./notice.tsx";
import { settingsParts } from "./settings-tabs.tsx";
import { Tabs } from "./tabs.tsx";
import { Moment } from "./time.tsx";

/** Renders the HTML document around every page. `framedBy`: the origin of the page around the frame. */
export const Page = ({
  title,
  theme = "auto",
  zone = "utc",
  framedBy,
  children,
}: PropsWithChildren<{ title: string; framedBy?: string | undefined } & Partial<Preferences>>) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en" data-theme={theme} data-zone={zone} data-framed-by={framedBy}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={theme === "auto" ? "light dark" : theme} />
        <title>{`${title} · ${shownName}`}</title>
        <link rel="icon" href={brand.icon ?? "/icon.svg"} />
        <link rel="stylesheet" href={assets["style.css"]} />
        {brand.style && <link rel="stylesheet" href={brand.style} />}
      </head>
      <body>{children}</body>
    </html>
  </>
);

/** Renders the logo and the name of the team. */
export const Brand = () => (
  <a class="brand" href="/">
    {brand.logo && (
      <>
        <img class={brand.logoDark ? "in-light" : undefined} src={brand.logo} alt="" height="24" />
        {brand.logoDark && <img class="in-dark" src={brand.logoDark} alt="" height="24" />}
      </>
    )}
    <bdi>{shownName}</bdi>
    {brand.name !== "" && <span class="area">{brand.area}</span>}
  </a>
);

/** Renders the link to the team's support for a request, or nothing. `children`: the text of the link. */
export const SupportLink = ({ requestId, children }: PropsWithChildren<{ requestId?: string }>) => {
  const href = supportLink(requestId);
  return href === null ? null : <a href={href}>{children ?? `Ask ${shownName}`}</a>;
};

/** Renders the link to the page of the team from which a visitor came, also out of a frame. */
export const BackLink = ({ to }: { to: string }) => (
  <a href={to} target="_top">
    {brand.appLabel || `Back to ${new URL(to).host}`}
  </a>
);

/** The links of the team in the footer. */
const teamLinks = [
  ["Support", supportLink()],
  ["Status", brand.statusUrl],
  ["Terms", brand.termsUrl],
  ["Privacy", brand.privacyUrl],
] as const;

/** Renders a page of one panel, for people who are not signed in. `after`: what follows the panel. */
export const NoticePage = ({
  title,
  heading = title,
  after,
  theme,
  children,
}: PropsWithChildren<{ title: string; heading?: string; after?: Child; theme?: Theme | undefined }>) => (
  <Page title={title} {...(theme && { theme })}>
    <main class="panel notice">
      {brand.name !== "" && <Brand />}
      <h1>{heading}</h1>
      {children}
    </main>
    {after}
  </Page>
);

/** Loads one of the project's own scripts. Because of the nonce, the Content-Security-Policy allows the script. */
export const PageScript = ({ name, c }: { name: "overview" | "passkeys" | "console" | "log"; c: PageContext }) => (
  <script type="module" src={assets[`${name}.js`]} nonce={c.get("secureHeadersNonce")} />
);

/** Renders a button that pauses and resumes automatic updates. The button stays hidden if JavaScript is off. */
export const PauseButton = () => (
  <button type="button" data-pause aria-pressed="false" hidden>
    Pause
  </button>
);

const sections = [
  ["Overview", "/"],
  ["API Keys", "/keys"],
  ["Requests", "/activity"],
  ["Webhooks", "/webhooks"],
  ["Documentation", "/docs"],
  ["Settings", "/settings"],
] as const;

export type Section = (typeof sections)[number][0];

/** The two views of the requests of an account. */
const views = [
  ["Activity", "/activity"],
  ["Usage", "/usage"],
] as const;

export interface Shown {
  title: string;
  section?: Section | undefined;
  /** The main action of the page, shown beside the heading. */
  action?: Child;
  /** The parent pages, starting at the top level. */
  trail?: readonly (readonly [name: string, path: string])[];
  status?: ContentfulStatusCode;
  /** What the reader has searched for, without secrets. */
  searched?: string;
}

/** The maximum length, in characters, of a query string that a page keeps when the reader changes the theme. */
export const maxSearch = 2000;

/** The headers of a page that contains account data. */
export const uncached = { "Cache-Control": "no-store" };

/** Responds with a page that has the standard header, navigation, heading and footer. Other requests run before the page is rendered. */
export async function showPage(c: PageContext, shown: Shown, children: Child): Promise<Response> {
  await giveWay();
  return c.html(framed(c, shown, children), shown.status ?? 200, uncached);
}

/** Returns the HTML that `showPage` responds with. */
export function framed(c: PageContext, { title, section, action, trail = [], searched }: Shown, children: Child) {
  const { theme, zone } = preferencesOf(c);
  // `visitor` may be undefined on documentation pages and "not found" pages.
  const visitor = c.get("visitor") as Visitor | undefined;
  const { pathname, search } = urlOf(c);
  const returnUrl = returnUrlOf(visitor);
  const back = returnUrl ?? brand.appUrl;
  const here = maskKeys(c.req.method === "GET" && search.length <= maxSearch ? pathname + search : pathname);
  const main = (
    <main id="main" tabindex={-1}>
      {trail.length > 0 && (
        <nav class="trail" aria-label="Breadcrumb">
          {trail.map(([name, path]) => (
            <NameLink href={path} name={name} />
          ))}
        </nav>
      )}
      <div class="heading">
        <h1>
          <bdi>{title}</bdi>
        </h1>
        {action && <div class="actions">{action}</div>}
      </div>
      {views.some(([, path]) => path === pathname) && (
        <Tabs label="Views of the requests" tabs={views} here={views.find(([, path]) => path === pathname)?.[0]} />
      )}
      {visitor && visitor.account.suspendedAt !== null && (
        <Note isBad>
          <p>
            This account has been suspended since <Moment timeMs={visitor.account.suspendedAt} />. Its keys are refused, its deliveries are
            held, and nothing can be changed.{" "}
            {visitor.account.suspensionReason !== null && (
              <>
                Reason: <bdi>{visitor.account.suspensionReason}</bdi>{" "}
              </>
            )}
            Ask {teamName} to resume the account. <SupportLink>Contact support</SupportLink>
          </p>
        </Note>
      )}
      {children}
    </main>
  );
  const script = <PageScript name="overview" c={c} />;
  // A frame is a part of the team's page, which has a header and a navigation of its own.
  if (visitor?.signedIn?.session?.isFramed)
    return (
      <Page title={title} theme={theme} zone={zone} framedBy={returnUrl === null ? undefined : new URL(returnUrl).origin}>
        {main}
        {script}
      </Page>
    );
  return (
    <Page title={title} theme={theme} zone={zone}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <Brand />
        <p class="where">
          {visitor && <bdi title={visitor.account.name}>{visitor.account.name}</bdi>}
          {c.get("isLocal") && <span class="tag">Local</span>}
          {visitor && visitor.account.sampleUntil !== null && <span class="tag">Sample data</span>}
          {visitor && visitor.account.suspendedAt !== null && <span class="tag">Suspended</span>}
        </p>
        {visitor?.signedIn && visitor.accounts.length > 1 && (
          <p class="action">
            <a href="/access">Switch account</a>
          </p>
        )}
        {visitor && !visitor.signedIn && visitor.accounts.length > 1 && (
          <form class="choice" method="get" action="/">
            <label class="unseen" for="account">
              Account
            </label>
            <select id="account" name="account">
              <Options of={visitor.accounts.map(({ id, name }) => [id, name] as const)} chosen={visitor.account.id} />
            </select>
            <button type="submit">Show</button>
          </form>
        )}
        {visitor && (
          <search class={section === "Documentation" ? "beside-docs" : undefined}>
            <form class="search" method="get" action="/search">
              <label class="unseen" for="search">
                Search keys, webhooks, requests, pages and documentation
              </label>
              <input
                id="search"
                name="q"
                type="search"
                value={searched}
                placeholder="Search (Ctrl K)"
                autocomplete="off"
                data-suggest="/search"
              />
            </form>
          </search>
        )}
        {back !== "" && (
          <p class="action">
            <BackLink to={back} />
          </p>
        )}
        {!visitor && !c.get("isOpen") && (
          <p class="action">
            <a href="/login">Sign in</a>
          </p>
        )}
        {visitor?.signedIn && (
          <form class="action" method="post" action="/logout">
            <details class="menu">
              <summary>
                <bdi>{visitor.signedIn.member.name}</bdi>
              </summary>
              <ul class="suggestions">
                {settingsParts(visitor).map(([name, path]) => (
                  <li>
                    <a href={path}>{name}</a>
                  </li>
                ))}
              </ul>
            </details>
            <button type="submit">Sign out</button>
          </form>
        )}
      </header>
      <nav class="main" aria-label="Main">
        <ul>
          {sections.map(([name, path]) => (
            <li>
              <a href={path === "/docs" ? brand.docsUrl || path : path} aria-current={name === section ? "page" : undefined}>
                {name}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      {main}
      <footer class="foot">
        <form method="post" action="/preferences">
          <input type="hidden" name="return_to" value={here} />
          <fieldset>
            <legend>Theme</legend>
            {(["auto", "light", "dark"] as const).map((each) => (
              <button type="submit" name="theme" value={each} aria-pressed={each === theme ? "true" : "false"}>
                {each}
              </button>
            ))}
          </fieldset>
          <fieldset>
            <legend>Times in</legend>
            {(["utc", "local"] as const).map((each) => (
              <button type="submit" name="zone" value={each} aria-pressed={each === zone ? "true" : "false"}>
                {each === "utc" ? "UTC" : "local time"}
              </button>
            ))}
          </fieldset>
        </form>
        <p>
          {visitor && !visitor.signedIn && <>Local mode: anyone on this machine can see these pages. </>}
          {teamLinks.map(([name, href]) => href && <a href={href}>{name}</a>)}
          {brand.poweredBy && <span>Powered by {productName}</span>}
        </p>
      </footer>
      {script}
    </Page>
  );
}
