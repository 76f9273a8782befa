import { Page } from "../components/layout.tsx";
import type { PageContext } from "../context.ts";

export const closedPage = (c: PageContext) =>
  c.html(
    <Page title="Closed">
      <main class="panel notice">
        <h1>The overview is closed</h1>
        <p>It opens only in a browser on the machine that runs it, under localhost. The API works as usual.</p>
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
          Make one with <code>npm run account -- --name NAME --email EMAIL</code>.
        </p>
      </main>
    </Page>,
  );

/** Returns the page for visitors who passed Cloudflare Access but are not members. The page names nobody, because anyone may read it. */
export const uninvitedPage = (c: PageContext) =>
  c.html(
    <Page title="Not invited">
      <main class="panel notice">
        <h1>You are not invited</h1>
        <p role="alert">
          Cloudflare Access knows you, but no account here has invited your address. Its owners and admins can, under Settings.
        </p>
      </main>
    </Page>,
    403,
  );
