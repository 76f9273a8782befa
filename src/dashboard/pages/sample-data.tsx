import { Hono } from "hono";
import { audited, recordAudit } from "../../audit/audit.ts";
import { always } from "../../db/optimistic-locking.ts";
import { type KeyPosition, listKeys } from "../../keys/read-keys.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { removeSampleData } from "../../operations/sample-data.ts";
import { foldAccount } from "../../usage/refresh-roll-ups.ts";
import { keyWriting, upToDate } from "../acting.ts";
import { Action } from "../components/fields.tsx";
import { showPage } from "../components/layout.tsx";
import { Moment } from "../components/time.tsx";
import type { PageEnv } from "../context.ts";
import { backToSettings } from "./settings.tsx";

const mostKeys = 100;

/** What was made up in the demo account, and its end. */
export const sampleDataPages = new Hono<PageEnv>();

/** What would go, before it goes. */
sampleDataPages.get("/settings/sample-data", async (c) => {
  const { sampleUntil } = c.get("visitor").account;
  return showPage(
    c,
    { title: "Remove the sample data", section: "Settings", trail: [["Settings", "/settings"]] },
    <section class="panel">
      {sampleUntil === null ? (
        <p>There is none.</p>
      ) : (
        <>
          <p>
            Everything from before <Moment timeMs={sampleUntil} /> goes, for good: people, tasks, requests, figures and the keys “Production
            backend”, “Mobile app” and “Nightly export”, which are refused from then on. What has come since stays.
          </p>
          <p class="buttons">
            <Action action="/settings/sample-data" kind="danger">
              Remove sample data
            </Action>
            <a class="button" href="/settings">
              Keep it
            </a>
          </p>
        </>
      )}
    </section>,
  );
});

sampleDataPages.post("/settings/sample-data", async (c) => {
  const { account } = c.get("visitor");
  const { id, sampleUntil } = account;
  if (sampleUntil === null) return backToSettings(c, "sample-removed");
  const asking = await upToDate(c);
  // Their guards first: a row that is gone says nothing to them.
  for (let after: KeyPosition | undefined; ; ) {
    const keys = await listKeys(asking, { after, limit: mostKeys });
    for (const key of keys) if (key.createdAt < sampleUntil && key.state !== "revoked") await revokeKey(keyWriting(c), key.id, always);
    after = keys.at(-1);
    if (keys.length < mostKeys) break;
  }
  await removeSampleData(asking, { id, sampleUntil });
  // What is left is in the figures of whoever looks next.
  await foldAccount(asking.activity.$client, id);
  await recordAudit(asking, audited(asking, "account.sample_data_removed", { type: "account", id, name: account.name }));
  return backToSettings(c, "sample-removed");
});
