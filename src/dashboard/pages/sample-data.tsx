import { Hono } from "hono";
import { writerAt } from "../../activity/writers.ts";
import { removeSampleData } from "../../operations/sample-data.ts";
import { servesSamples } from "../../registry/manifests.ts";
import { Action } from "../components/fields.tsx";
import { showPage } from "../components/layout.tsx";
import { Moment } from "../components/time.tsx";
import type { PageEnv } from "../context.ts";
import { needs } from "../needs.ts";
import { keyContext } from "../operation-contexts.ts";
import { backToSettings } from "./settings.tsx";

/** The pages that remove the sample data of the demo account. */
export const sampleDataPages = new Hono<PageEnv>();

/** Shows the sample data that will be deleted, before the visitor confirms the deletion. */
sampleDataPages.get("/settings/sample-data", needs("account"), async (c) => {
  const { sampleUntil } = c.get("visitor").account;
  return showPage(
    c,
    { title: "Remove the sample data", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      {sampleUntil === null ? (
        <p>There is no sample data.</p>
      ) : (
        <>
          <p>
            Everything from before <Moment timeMs={sampleUntil} /> is permanently deleted: {servesSamples && "users, tasks, "}requests,
            figures, and the keys and webhooks that were created before. These keys stop working. Newer data is kept.
          </p>
          <div class="buttons">
            <Action action="/settings/sample-data" kind="danger">
              Remove sample data
            </Action>
            <a class="button" href="/settings">
              Keep it
            </a>
          </div>
        </>
      )}
    </section>,
  );
});

sampleDataPages.post("/settings/sample-data", needs("account", "always"), async (c) => {
  const { account } = c.get("visitor");
  const deleteSampleLog = (accountId: string, until: number) => writerAt(c.env, account.logWriter).deleteSample(accountId, until);
  await removeSampleData({ ...keyContext(c), deleteSampleLog }, account);
  return backToSettings(c, "sample-removed");
});
