import { Hono } from "hono";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { plansWithProgress } from "../../budget/plan.ts";
import { connect } from "../../db/client.ts";
import { urlOf } from "../../http/request-url.ts";
import { deleteSigned, readSigned, setSigned } from "../../http/signed-cookie.ts";
import {
  closeOperatorSession,
  type OperatorSession,
  openOperatorSession,
  operatorSessionMs,
  readOperatorSession,
} from "../../identity/operator-sessions.ts";
import { shownName } from "../../lib/settings.ts";
import { readDeploymentStatus } from "../../monitoring/deployment-status.ts";
import { readConditions } from "../../monitoring/read-conditions.ts";
import { readFindings } from "../../monitoring/shadow.ts";
import { readTraffic } from "../../monitoring/traffic.ts";
import { isTooMany } from "../../team/authenticate.ts";
import type { TeamContext } from "../../team/context.ts";
import { operatorOf, operatorTokens } from "../../team/operator-tokens.ts";
import type { TeamEnv } from "../../team/team-router.ts";
import { maxTokens, readTokens } from "../../team/tokens/manage-tokens.ts";
import { Submit } from "../components/fields.tsx";
import { Page } from "../components/layout.tsx";
import { Alert } from "../components/notice.tsx";
import { readForm } from "../forms.ts";
import { Conditions, Deployment, Jobs } from "./deployment.tsx";
import { Plans } from "./plans.tsx";
import { Shadow } from "./shadow.tsx";
import { Tokens } from "./tokens.tsx";
import { TrafficPanels } from "./traffic.tsx";

// The operator page shows the status of the deployment, and accounts that may need attention. The operator page is read-only. Operators make
// changes on the command line.

const cookie = { name: "operator", sameSite: "Strict" } as const;

/** Returns the session of the request. If the operator token of the session no longer exists, returns null. */
export async function sessionOf(c: TeamContext): Promise<OperatorSession | null> {
  const token = await readSigned(c, cookie);
  const session = token === undefined ? null : await readOperatorSession(connect(c.env.DB), token, Date.now());
  return session && operatorTokens(c.env).some(({ tokenHash }) => tokenHash === session.operatorTokenHash) ? session : null;
}

export const show = (
  c: TeamContext,
  { title, status = 200, aside }: { title: string; status?: ContentfulStatusCode; aside?: Child },
  children: Child,
) =>
  c.html(
    <Page title={title}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/operator">
          {shownName}
        </a>
        <p class="where">
          <span class="tag">Operator</span>
        </p>
        {aside}
      </header>
      <main id="main" tabindex={-1}>
        <div class="heading">
          <h1>{title}</h1>
        </div>
        {children}
      </main>
    </Page>,
    status,
    { "Cache-Control": "no-store" },
  );

/** Returns the path to open after signing in: a page of the documentation for the team, or else the page of the operator. */
const pathAfter = (asked: string): string => (/^\/docs\/team(?:\/[\w-]+)*$/.test(asked) ? asked : "/operator");

export const showSignIn = (
  c: TeamContext,
  error?: string,
  { status = 403, returnTo = urlOf(c).pathname }: { status?: 403 | 429; returnTo?: string } = {},
) =>
  show(
    c,
    { title: "Operator", status: error === undefined ? 200 : status },
    <section class="panel notice" aria-label="Sign in">
      <Alert formError={error === undefined ? undefined : { summary: error, fieldErrors: new Map() }} />
      <form class="form" method="post" action="/operator/session">
        <input type="hidden" name="return_to" value={pathAfter(returnTo)} />
        <div class="field">
          <label for="token">Operator token</label>
          <input id="token" name="token" type="password" autocomplete="current-password" required aria-describedby="token-help" />
          <p class="help" id="token-help">
            The token opens this page for an hour. On a laptop, the token is <code>OPERATOR_TOKEN</code> in <code>.dev.vars</code>.
          </p>
        </div>
        <Submit>Open</Submit>
      </form>
    </section>,
  );

/** The maximum number of plans on the page. */
const maxPlans = 1000;

export const operatorPages = new Hono<TeamEnv>();

operatorPages.get("/operator", async (c) => {
  const session = await sessionOf(c);
  if (!session) return showSignIn(c);
  const [db, now] = [connect(c.env.DB), Date.now()];
  const [status, traffic, plans, { rows: tokens }, shadow] = await Promise.all([
    readDeploymentStatus(db, c.env, now),
    readTraffic({ db, env: c.env }, now),
    plansWithProgress(db, { limit: maxPlans }),
    readTokens(db, c.env, { revokedToo: false, limit: maxTokens }),
    readFindings(db),
  ]);
  const unknown = [...status.unknown, ...traffic.unknown.map((store) => `the traffic of accounts in ${store}`)];
  const { conditions } = await readConditions(db, c.env, { ...status, unknown }, now);
  const aside = (
    <form class="action" method="post" action="/operator/sign-out">
      <a href="/docs/team">Documentation</a>
      <span class="quiet">
        <bdi>{session.operator}</bdi>
      </span>
      <button type="submit">Sign out</button>
    </form>
  );
  return show(
    c,
    { title: "Operator", aside },
    <>
      <Conditions conditions={conditions} />
      <Deployment status={status} now={now} />
      <Plans plans={plans} />
      <Tokens tokens={tokens} now={now} />
      <Shadow report={shadow} />
      <TrafficPanels accounts={traffic.accounts} />
      <Jobs jobs={status.jobs} now={now} />
    </>,
  );
});

operatorPages.post("/operator/session", async (c) => {
  const form = await readForm(c);
  const returnTo = form.text("return_to");
  const token = operatorOf(c.env, form.text("token"));
  if (token === null) {
    const isTooOften = await isTooMany(c);
    return isTooOften
      ? showSignIn(c, "Too many requests with a wrong token came from your IP address. Wait a minute, then try again.", {
          status: 429,
          returnTo,
        })
      : showSignIn(c, "This is not an operator token.", { returnTo });
  }
  const [db, now] = [connect(c.env.DB), Date.now()];
  const session = await openOperatorSession(db, { operator: token.name, operatorTokenHash: token.tokenHash }, now);
  await setSigned(c, cookie, session, operatorSessionMs);
  return c.redirect(pathAfter(returnTo), 303);
});

operatorPages.post("/operator/sign-out", async (c) => {
  const token = await readSigned(c, cookie);
  if (token !== undefined) await closeOperatorSession(connect(c.env.DB), token);
  deleteSigned(c, cookie);
  return c.redirect("/operator", 303);
});
