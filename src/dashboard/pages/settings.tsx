import { Hono } from "hono";
import { showPage } from "../components/layout.tsx";
import { Code } from "../components/secret.tsx";
import { Moment } from "../components/time.tsx";
import type { PageEnv } from "../context.ts";
import { integer } from "../format.ts";
import { readForm } from "../forms.ts";
import { isTheme, isZone, pathWithin, remember } from "../preferences.ts";

export const settingsPages = new Hono<PageEnv>();

settingsPages.get("/settings", (c) => {
  const { account } = c.get("visitor");
  return showPage(
    c,
    { title: "Settings", section: "Settings" },
    <section class="panel" aria-labelledby="account-facts">
      <h2 id="account-facts">The account</h2>
      <dl class="facts">
        <dt>Name</dt>
        <dd>
          <bdi>{account.name}</bdi>
        </dd>
        <dt>Email</dt>
        <dd class="break">{account.email}</dd>
        <dt>Id</dt>
        <dd>
          <code class="break">{account.id}</code>
        </dd>
        <dt>Ceiling</dt>
        <dd>{integer(account.limitCeiling)} requests an hour for each key; the operator may change it</dd>
        <dt>Made</dt>
        <dd>
          <Moment timeMs={account.createdAt} />
        </dd>
      </dl>
    </section>,
  );
});

/** How pages look is remembered by cookie, so that it works without script. */
settingsPages.post("/preferences", async (c) => {
  const form = await readForm(c);
  const [theme, zone] = [form.text("theme"), form.text("zone")];
  if (isTheme(theme)) remember(c, "theme", theme);
  if (isZone(zone)) remember(c, "zone", zone);
  return c.redirect(pathWithin(form.text("return_to")), 303);
});

/** A first call, until there is more of it. */
settingsPages.get("/docs", (c) => {
  const { origin } = c.get("url");
  return showPage(
    c,
    { title: "Documentation", section: "Documentation" },
    <section class="panel" aria-labelledby="quick-start">
      <h2 id="quick-start">Quick start</h2>
      <p>
        <a href="/keys/new">Create a key</a>, keep it in <code>API_KEY</code>, and call:
      </p>
      <Code label="With curl">{`curl ${origin}/api/v1/me -H "Authorization: Bearer $API_KEY"`}</Code>
      <p>
        The contract is <a href="/api/v1/openapi.json">the OpenAPI document</a>.
      </p>
    </section>,
  );
});
