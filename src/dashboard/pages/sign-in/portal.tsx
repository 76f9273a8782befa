import { type Context, Hono } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { connect } from "../../../db/client.ts";
import { framingHosts } from "../../../http/portal-hosts.ts";
import { claimPortalLink, endedPortalLink, endStolen, type PortalLink, type ReadLink, readPortalLink } from "../../../identity/portal.ts";
import { endSession, type SignedIn } from "../../../identity/sessions.ts";
import { Failure, orNull } from "../../../lib/errors/failure.ts";
import { shownName } from "../../../lib/settings.ts";
import { commitTo } from "../../../outbox/outbox.ts";
import { clearSession, isInFrame, setPortalSession } from "../../access/session-cookie.ts";
import { Submit } from "../../components/fields.tsx";
import { BackLink, NoticePage, PageScript } from "../../components/layout.tsx";
import { Age } from "../../components/time.tsx";
import type { PageContext, PageEnv, Visitor } from "../../context.ts";
import { readForm } from "../../forms.ts";
import { contextOf, unboundOutbox } from "../../operation-contexts.ts";
import { isTheme, remember, type Theme } from "../../preferences.ts";
import { sessionOrigin } from "./passkeys.tsx";

// The page of a portal link. To look at it opens nothing: a person presses "Continue", so that no other page can sign a reader in.

export const portalPages = new Hono<PageEnv>();

/** The cookie that says whether the browser keeps cookies for this frame. */
const check = { name: "portal-check", value: "1" };

/** Returns the theme that the page around a frame asks for. svix-react sends `darkMode`. */
function themeOf(c: PageContext): Theme | undefined {
  const theme = c.req.query("theme") ?? (c.req.query("darkMode") === "true" ? "dark" : "");
  return isTheme(theme) ? theme : undefined;
}

/** Returns the member who is signed in in this browser as somebody else than the link names. */
function otherMember(c: PageContext, { accountId, externalId }: PortalLink): SignedIn | null {
  const signedIn = (c.get("visitor") as Visitor | undefined)?.signedIn ?? null;
  const isSame = signedIn?.member.accountId === accountId && signedIn.member.externalId === externalId;
  return isSame ? null : signedIn;
}

portalPages.get("/portal", async (c) => {
  const found = await readPortalLink(connect(c.env.DB), c.req.query("token") ?? "", Date.now());
  if (found && isOwnSession(c, found.link)) return c.redirect(found.link.page, 303);
  if (isInFrame(c))
    setCookie(c, check.name, check.value, { path: "/", maxAge: 60, httpOnly: true, secure: true, sameSite: "None", partitioned: true });
  return showLink(c, found, c.req.query("token") ?? "", themeOf(c));
});

const isOwnSession = (c: PageContext, { id }: PortalLink): boolean =>
  (c.get("visitor") as Visitor | undefined)?.signedIn?.session?.openedWith === id;

function showLink(c: PageContext, found: ReadLink | null, token: string, theme: Theme | undefined, status: 200 | 409 = 200) {
  allowFrame(c, found);
  if (!found?.isOpen) return showEnded(c, found, token, theme);
  const { link, account } = found;
  const other = otherMember(c, link);
  return c.html(
    <NoticePage title="Continue" heading={`Continue to ${shownName}`} theme={theme} after={<PageScript name="overview" c={c} />}>
      <p>
        You come from <strong>{new URL(link.returnUrl).host}</strong>, as <bdi>{link.name}</bdi>. You open the account{" "}
        <strong>
          <bdi>{account.name}</bdi>
        </strong>{" "}
        with the role {link.role}.
      </p>
      {other && (
        <p role="alert">
          In this browser, <bdi>{other.member.name}</bdi> is signed in to <bdi>{(c.get("visitor") as Visitor).account.name}</bdi>. If you
          continue, this session ends.
        </p>
      )}
      <form class="form" method="post" action="/portal" data-continue={isInFrame(c) && link.isFramed && !other ? "" : undefined}>
        <input type="hidden" name="token" value={token} />
        {other && <input type="hidden" name="replace" value={other.member.id} />}
        {theme && <input type="hidden" name="theme" value={theme} />}
        <Submit>Continue</Submit>
      </form>
      <p class="quiet">
        If you did not ask for this page, close it. <BackLink to={link.returnUrl} />
      </p>
    </NoticePage>,
    status,
    { "Cache-Control": "no-store" },
  );
}

/** Lets the team's origins show the page in a frame, if the link is for one. */
function allowFrame(c: Context<PageEnv>, found: ReadLink | null): void {
  if (isInFrame(c) && found?.link.isFramed) c.set("framedBy", framingHosts(found.link.returnUrl, c.get("isLocal")));
}

/** Responds that a link has ended. If it was used, a button ends the session that it opened: a stolen link opens nothing for long. */
const showEnded = (c: PageContext, found: ReadLink | null, token: string, theme?: Theme, isEndedNow = false) =>
  c.html(
    <NoticePage title="This link has ended" theme={theme}>
      <p role="alert">
        {isEndedNow ? "The session that this link had opened has ended. " : ""}
        {endedPortalLink().message}
      </p>
      {found?.link.claimedAt && !isEndedNow && (
        <form class="form" method="post" action="/portal">
          <p>
            It was used <Age timeMs={found.link.claimedAt} now={Date.now()} />. If it was not you who used it, end the session that it
            opened.
          </p>
          <input type="hidden" name="token" value={token} />
          <button type="submit">End that session</button>
        </form>
      )}
      {found && (
        <p>
          <BackLink to={found.link.returnUrl} />
        </p>
      )}
    </NoticePage>,
    409,
    { "Cache-Control": "no-store" },
  );

portalPages.post("/portal", async (c) => {
  const form = await readForm(c);
  const token = form.text("token");
  const [isFramed, given] = [isInFrame(c), form.text("theme")];
  const theme = isTheme(given) ? given : undefined;
  const found = await readPortalLink(connect(c.env.DB), token, Date.now());
  if (!found) return showEnded(c, found, token, theme);
  if (isOwnSession(c, found.link)) return c.redirect(found.link.page, 303);
  allowFrame(c, found);
  if (found.link.claimedAt !== null)
    return showEnded(c, found, token, theme, await endStolen(connect(c.env.DB), found.link, Date.now(), sessionOrigin(c)));
  if (isFramed && !found.link.isFramed) throw new Failure("forbidden", "This link is not for a frame.");
  if (isFramed && getCookie(c, check.name) !== check.value) return showTab(c, token, theme);
  const other = found.isOpen ? otherMember(c, found.link) : null;
  if (other && form.text("replace") !== other.member.id) return showLink(c, found, token, theme, 409);
  try {
    const session = await claimPortalLink(unboundOutbox(c), Date.now(), { token, isFramed, from: sessionOrigin(c) });
    if (!isFramed) clearSession(c);
    await setPortalSession(c, session);
    if (other?.session) await endSession(contextOf(c, commitTo(unboundOutbox(c))), other.session.id, other.member).catch(orNull);
  } catch (error) {
    if (error instanceof Failure && error.code === "conflict") return showEnded(c, found, token, theme);
    throw error;
  }
  if (theme) remember(c, "theme", theme);
  return c.redirect(found.link.page, 303);
});

/** Responds to a frame whose browser keeps no cookies there. The link stays unused, so it still works in a tab. */
const showTab = (c: PageContext, token: string, theme: Theme | undefined) =>
  c.html(
    <NoticePage title="Open in a tab" theme={theme}>
      <p>Your browser does not let this frame keep you signed in.</p>
      <p>
        <a class="button main" href={`/portal?token=${token}`} target="_blank" rel="noopener">
          Open in a new tab
        </a>
      </p>
    </NoticePage>,
    409,
    { "Cache-Control": "no-store" },
  );
