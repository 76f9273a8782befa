import { Page } from "../../components/layout.tsx";
import type { PageContext } from "../../context.ts";

export const closedPage = (c: PageContext) =>
  c.html(
    <Page title="Closed">
      <main class="panel notice">
        <h1>The overview is closed</h1>
        <p>The overview opens only in a browser, under localhost, on the machine that runs the service. The API works as usual.</p>
      </main>
    </Page>,
    403,
  );

export const noAccountPage = (c: PageContext) =>
  c.html(
    <Page title="No account">
      <main class="panel notice">
        <h1>No account yet</h1>
        <p>
          Create an account with <code>npm run account -- --name NAME --email EMAIL</code>.
        </p>
      </main>
    </Page>,
  );

/**
 * Returns the page for visitors who passed Cloudflare Access but are not members. The page contains no names, because anyone may read the
 * page.
 */
export const uninvitedPage = (c: PageContext) =>
  c.html(
    <Page title="Not invited">
      <main class="panel notice">
        <h1>You are not invited</h1>
        <p role="alert">
          Cloudflare Access has verified your email address, but no account has invited this address. The owners and admins can invite you
          on their Settings page.
        </p>
      </main>
    </Page>,
    403,
  );
