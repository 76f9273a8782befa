import type { Child } from "hono/jsx";
import { type Key, statusOf } from "../../../keys/key.ts";
import { mayTouch, visitorMay } from "../../access/permissions.tsx";
import { Action, ButtonLink } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert, Done, Note } from "../../components/notice.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { idOf, type PageContext } from "../../context.ts";
import { type FormError, ownValue } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";

/** Maps each value of the `done` query parameter to a message and the matching API call. */
const outcomes: Record<string, (key: Key) => [sentence: string, call: string]> = {
  changed: ({ id }) => ["Changed. Restrictions are active now, and wider permissions within two seconds.", `PATCH /api/v1/keys/${id}`],
  disabled: ({ id }) => [
    "Disabled. Requests with this key are refused until you enable the key again.",
    `PATCH /api/v1/keys/${id} {"status": "disabled"}`,
  ],
  enabled: ({ id }) => ["Enabled. Requests with this key are accepted again.", `PATCH /api/v1/keys/${id} {"status": "active"}`],
  "overlap-ended": ({ id }) => [
    "The overlap has ended. Requests with the old secret are refused from now on.",
    `PATCH /api/v1/keys/${id} {"overlap_ends_at": null}`,
  ],
  revoked: ({ id }) => ["Revoked. Requests with this key are refused from now on.", `DELETE /api/v1/keys/${id}`],
};

const tabsOf = ({ id }: Pick<Key, "id">) =>
  [
    ["Traffic", `/keys/${id}`],
    ["Settings", `/keys/${id}/settings`],
  ] as const;

/** The parents of a page about a key. */
export const trailOf = ({ id, name }: Pick<Key, "id" | "name">) =>
  [
    ["API Keys", "/keys"],
    [name, `/keys/${id}`],
  ] as const;

/** Redirects to the page of the key. The page shows the message for `done`. */
export const backToKey = (c: PageContext, done: string) => c.redirect(`/keys/${idOf(c)}?done=${done}`, 303);

/** Returns whether the visitor may change, rotate or enable a key. */
export const isChangeable = (c: PageContext, key: Key): boolean => statusOf(key, contextOf(c).now) !== "revoked" && mayTouch(c, key.scopes);

/** Responds with one tab of a key. Every tab has the actions of the key and the message of `done`. */
export function showTab(
  c: PageContext,
  key: Key,
  { tab, formError }: { tab: ReturnType<typeof tabsOf>[number][0]; formError?: FormError | undefined },
  children: Child,
) {
  const status = statusOf(key, contextOf(c).now);
  const done = c.req.query("done") ?? "";
  // A bookmarked URL may contain an outcome that is no longer true.
  const isSo = ownValue({ disabled: status === "disabled", enabled: key.state === "active", revoked: status === "revoked" }, done) ?? true;
  const outcome = isSo ? ownValue(outcomes, done)?.(key) : undefined;
  return showPage(
    c,
    {
      title: key.name,
      section: "API Keys",
      trail: [["API Keys", "/keys"]],
      status: formError ? 422 : 200,
      action: status !== "revoked" && visitorMay(c, "keys") && (
        <>
          {key.state === "active" && <Action action={`/keys/${key.id}/disable`}>Disable</Action>}
          {key.state === "disabled" && isChangeable(c, key) && <Action action={`/keys/${key.id}/enable`}>Enable</Action>}
          {isChangeable(c, key) && <ButtonLink href={`/keys/${key.id}/rotate`}>Rotate</ButtonLink>}
          <ButtonLink kind="danger" href={`/keys/${key.id}/revoke`}>
            Revoke
          </ButtonLink>
        </>
      ),
    },
    <>
      <Tabs label="Key" tabs={tabsOf(key)} here={tab} />
      {outcome && <Done call={outcome[1]}>{outcome[0]}</Done>}
      <Alert formError={formError} />
      {status !== "revoked" && visitorMay(c, "keys") && !isChangeable(c, key) && (
        <Note>
          <p>
            This key has scopes that your role may not grant. You can disable or revoke the key, but only an admin or an owner of the
            account can change, rotate or enable it.
          </p>
        </Note>
      )}
      {children}
    </>,
  );
}
