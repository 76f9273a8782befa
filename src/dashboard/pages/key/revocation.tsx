import { Hono } from "hono";
import { always } from "../../../db/optimistic-locking.ts";
import { readKey } from "../../../keys/read-keys.ts";
import { revokeKey } from "../../../keys/revoke-key.ts";
import { hourMs } from "../../../lib/time/clock.ts";
import { readKeyTraffic } from "../../../log/read/key-traffic.ts";
import { needs } from "../../access/needs.ts";
import { Columns } from "../../components/columns.tsx";
import { Action, ButtonLink } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Moment } from "../../components/time.tsx";
import { idOf, type PageEnv } from "../../context.ts";
import { counted, integer } from "../../format.ts";
import { attempt } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { backToKey, trailOf } from "./frame.tsx";
import { showKey } from "./page.tsx";

/** The pages that show the recent requests of a key and then revoke the key. */
export const keyRevocationPages = new Hono<PageEnv>();

keyRevocationPages.get("/keys/:id/revoke", needs("keys"), async (c) => {
  const context = await snapshotContext(c);
  const { now } = context;
  const key = await readKey(context, idOf(c));
  if (key.state === "revoked") return c.redirect(`/keys/${key.id}`, 303);
  const traffic = await readKeyTraffic(context, key.id, now - hourMs).catch(() => null);
  return showPage(
    c,
    {
      title: `Revoke ${key.name}`,
      section: "API Keys",
      trail: trailOf(key),
    },
    <section class="panel" aria-labelledby="in-use">
      <h2 id="in-use">
        {traffic === null
          ? "The use of this key is not known right now"
          : traffic.requests === 0
            ? "Not used in the last hour"
            : `In use: ${counted(traffic.requests, "request")} in the last hour`}
      </h2>
      {traffic !== null && traffic.requests > 0 && (
        <table>
          <Columns of={["Operation", { name: "Requests", isNumber: true }]} />
          <tbody>
            {traffic.byRoute.map(({ method, route, requests }) => (
              <tr>
                <th scope="row">
                  <code>
                    {method} {route}
                  </code>
                </th>
                <td class="number">{integer(requests)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {traffic !== null && traffic.from > now - hourMs && (
        <p class="quiet">
          Counted since <Moment timeMs={traffic.from} />.
        </p>
      )}
      <p>
        As soon as you revoke this key, all requests with it are refused with 401, everywhere and permanently. If the key is busy, this
        takes up to three seconds.
        {key.lastUsedAt !== null && (
          <>
            {" "}
            The key was last used on <Moment timeMs={key.lastUsedAt} />.
          </>
        )}{" "}
        To stop the key temporarily, disable it instead.
      </p>
      {key.scopes.includes("keys:write") && <p>Keys that this key created keep working. The page of each key names its creator.</p>}
      <div class="buttons">
        <Action action={`/keys/${key.id}/revoke`} kind="danger">
          Revoke
        </Action>
        <ButtonLink href={`/keys/${key.id}`}>Keep it</ButtonLink>
      </div>
    </section>,
  );
});

keyRevocationPages.post("/keys/:id/revoke", needs("keys", "always"), async (c) => {
  const revoked = await attempt(() => revokeKey(contextOf(c), idOf(c), always));
  return "formError" in revoked ? showKey(c, { formError: revoked.formError }) : backToKey(c, "revoked");
});
