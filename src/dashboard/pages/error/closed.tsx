import { settings } from "../../../lib/settings.ts";
import { NoticePage } from "../../components/layout.tsx";
import type { PageContext } from "../../context.ts";

export const closedPage = (c: PageContext) =>
  c.html(
    <NoticePage title="Closed" heading="The overview is closed">
      <p>The overview opens only in a browser, under localhost, on the machine that runs the service. The API works as usual.</p>
    </NoticePage>,
    403,
  );

export const noAccountPage = (c: PageContext) =>
  c.html(
    <NoticePage title="No account" heading="No account yet">
      <p>
        Create an account with <code>npm run account -- --name NAME --email EMAIL</code>.
      </p>
    </NoticePage>,
  );

/** Returns the page for a frame whose session has ended. It tells nothing, so any page of the team may frame it. */
export function endedFramePage(c: PageContext) {
  c.set("framedBy", settings.portal.hosts);
  return c.html(
    <NoticePage title="Session ended" heading="Your session has ended">
      <p role="alert">Reload the page around this frame to open it again.</p>
    </NoticePage>,
    403,
  );
}

/**
 * Returns the page for visitors who passed Cloudflare Access but are not members. The page contains no names, because anyone may read the
 * page.
 */
export const uninvitedPage = (c: PageContext) =>
  c.html(
    <NoticePage title="Not invited" heading="You are not invited">
      <p role="alert">
        Cloudflare Access has verified your email address, but no account has invited this address. The owners and admins can invite you on
        their Settings page.
      </p>
    </NoticePage>,
    403,
  );
