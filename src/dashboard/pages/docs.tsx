import { Hono } from "hono";
import { showPage } from "../components/layout.tsx";
import { Code } from "../components/secret.tsx";
import type { PageEnv } from "../context.ts";

/** A first call, until there is more of it. */
export const docsPages = new Hono<PageEnv>().get("/docs", (c) => {
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
