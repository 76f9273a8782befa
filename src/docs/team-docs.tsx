import { Hono } from "hono";
import { raw } from "hono/html";
import { sessionOf, show, showSignIn } from "../dashboard/desk/operator.tsx";
import { requestOrigin, urlOf } from "../http/request-url.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { TeamContext } from "../team/context.ts";
import type { TeamEnv } from "../team/team-router.ts";
import { library, servedFrom } from "./library.ts";

/** The documentation for the team: guides, and the reference of the team API. Only operators can read it. */
export const teamDocs = new Hono<TeamEnv>();

const groups = ["Guides", "Reference"] as const;

const Contents = ({ path }: { path?: string }) => (
  <nav class="contents" aria-label="Documentation for the team">
    {groups.map((group) => (
      <details open={path === undefined || library().team.some((page) => page.path === path && page.group === group)}>
        <summary>{group}</summary>
        <ul>
          {library()
            .team.filter((page) => page.group === group)
            .map((page) => (
              <li>
                <a href={page.path} {...(page.path === path && { "aria-current": "page" as const })}>
                  {page.title}
                </a>
              </li>
            ))}
        </ul>
      </details>
    ))}
  </nav>
);

const aside = <a href="/operator">Back to the deployment</a>;

async function showTeamPage(c: TeamContext): Promise<Response> {
  if (!(await sessionOf(c))) return showSignIn(c);
  const { pathname } = urlOf(c);
  if (pathname === "/docs/team")
    return show(
      c,
      { title: "Documentation for the team", aside },
      <>
        <p>How your own API uses this deployment, and the reference of the team API. Customers do not see these pages.</p>
        <Contents />
      </>,
    );
  const page = library().team.find(({ path }) => path === pathname);
  if (!page) throw new Failure("not_found", "There is no such page.");
  return show(
    c,
    { title: page.title, aside },
    <div class="documentation with-contents">
      <article class="panel prose">{raw(servedFrom(page.html, requestOrigin(c)))}</article>
      <Contents path={page.path} />
    </div>,
  );
}

teamDocs.get("/docs/team", showTeamPage);
teamDocs.get("/docs/team/*", showTeamPage);
