import { Hono } from "hono";
import { type Member, readCurrentOrFormerMember, removeMember } from "../../../identity/member.ts";
import { type Invitation, invitationsEndedBy, listInvitations } from "../../../identity/open-invitations.ts";
import { mayManage } from "../../../identity/roles.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { hasKeysOfMember, listKeysOfMember } from "../../../keys/keys-of-member.ts";
import { scopesInWords } from "../../../keys/scopes.ts";
import { removeWithKeys, revokeKeysOfFormer } from "../../../lifecycle/removal.ts";
import { listWebhooksOfMember } from "../../../webhooks/subscriptions/list-webhooks-of-member.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { needs } from "../../access/needs.ts";
import { showForbidden } from "../../access/permissions.tsx";
import { ButtonLink, Submit } from "../../components/fields.tsx";
import { KeyText, Unused } from "../../components/key-list.tsx";
import { showPage } from "../../components/layout.tsx";
import { KeyState } from "../../components/status.tsx";
import { Age } from "../../components/time.tsx";
import { idOf, type PageContext, type PageEnv, roleOf } from "../../context.ts";
import { attempt, type Form, readForm } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { backToSettings, showSettings } from "./page.tsx";

/**
 * The pages that remove a member and handle the keys, webhooks and invitations that the member leaves behind. If the member was already
 * removed, the pages handle only these resources.
 */
export const memberRemovalPages = new Hono<PageEnv>();

memberRemovalPages.get("/settings/members/:id/remove", needs("members"), async (c) => {
  const member = await readCurrentOrFormerMember(contextOf(c), idOf(c));
  if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
  return showRemoval(c, member);
});

memberRemovalPages.post("/settings/members/:id/remove", needs("members", "always"), async (c) => {
  const form = await readForm(c);
  const member = await readCurrentOrFormerMember(contextOf(c), idOf(c));
  if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
  return isOwn(c, member) ? leave(c, form, member) : remove(c, form, member);
});

/** The maximum number of keys that the page lists. One request can revoke all of them: each key takes up to seven of the 1,000 D1 statements. */
const maxKeys = 100;

const isFormer = ({ removedAt }: Member): boolean => removedAt !== null;

const isOwn = (c: PageContext, { id }: Member): boolean => c.get("visitor").signedIn?.member.id === id;

async function showRemoval(c: PageContext, member: Member) {
  const context = await snapshotContext(c);
  const [found, webhooks, invitations] = await Promise.all([
    listKeysOfMember(context, member.id, maxKeys + 1),
    listWebhooksOfMember(context, member.id),
    listInvitations(context, invitationsEndedBy(member, null, context.now)),
  ]);
  const keys = found.slice(0, maxKeys);
  return showPage(
    c,
    {
      title: isFormer(member) ? `What ${member.name} left behind` : `Remove ${member.name}`,
      section: "Settings",
      trail: [["Settings", "/settings"]],
    },
    <section class="panel">
      <p>
        <bdi>{member.name}</bdi> (<span class="break">{member.email}</span>){" "}
        {isFormer(member)
          ? `is no longer a member of this account. ${keys.length > 0 ? "Some keys that they created or rotated are not revoked." : "All keys that they created or rotated are revoked."}`
          : `is ${member.role === "viewer" || member.role === "developer" ? "a" : "an"} ${member.role} of this account. Removing them ends their sessions, passkeys and recovery codes at once. ${member.externalId === null ? "To come back, they need a new invitation." : "The app from which they come can let them in again."}`}
      </p>
      <EndingInvitations invitations={invitations} />
      <MadeWebhooks webhooks={webhooks} />
      <form class="form" method="post" action={`/settings/members/${member.id}/remove`}>
        {keys.length > 0 && <KeysOfMember keys={keys} hasMore={found.length > maxKeys} isOwn={isOwn(c, member)} now={context.now} />}
        <p class="buttons">
          {(keys.length > 0 || !isFormer(member)) && (
            <Submit kind="danger">
              {isFormer(member) ? (
                "Revoke the ticked keys"
              ) : (
                <span>
                  Remove <bdi>{member.name}</bdi>
                </span>
              )}
            </Submit>
          )}
          <ButtonLink href="/settings">Cancel</ButtonLink>
        </p>
      </form>
    </section>,
  );
}

const MadeWebhooks = ({ webhooks }: { webhooks: readonly Webhook[] }) =>
  webhooks.length === 0 ? null : (
    <>
      <h2>Webhooks that this member created or changed</h2>
      <p>These webhooks keep sending events. Disable or delete the webhooks that must stop.</p>
      <ul class="lines">
        {webhooks.map(({ id, url, state }) => (
          <li>
            <a class="break" href={`/webhooks/${id}`}>
              {url}
            </a>{" "}
            <span class="quiet">{state}</span>
          </li>
        ))}
      </ul>
    </>
  );

const EndingInvitations = ({ invitations }: { invitations: readonly Invitation[] }) =>
  invitations.length === 0 ? null : (
    <>
      <h2>Invitations that end with this membership</h2>
      <ul class="lines">
        {invitations.map(({ email, role }) => (
          <li>
            <span class="break">{email}</span> <span class="quiet">{role}</span>
          </li>
        ))}
      </ul>
    </>
  );

const KeyName = ({ keyRow }: { keyRow: Key }) => (
  <>
    <bdi>{keyRow.name}</bdi> <KeyText keyRow={keyRow} />
  </>
);

/**
 * Renders the keys that the member created or rotated. Each key has a ticked checkbox to revoke the key. Members who remove themselves get no
 * checkboxes, because they may not revoke keys after the removal.
 */
const KeysOfMember = ({ keys, hasMore, isOwn, now }: { keys: readonly Key[]; hasMore: boolean; isOwn: boolean; now: number }) => (
  <fieldset class="field choices" aria-describedby="about-keys">
    <legend>Keys created or rotated by this member</legend>
    <p id="about-keys">
      {isOwn
        ? "These keys keep working. Revoke the keys that must stop, on their pages, before you leave."
        : "The ticked keys are revoked, and never work again. Untick the keys that must keep working."}
      {!isOwn && hasMore && ` This list shows ${maxKeys} keys. The other keys keep working until you revoke them on the next page.`}
      {keys.some(({ scopes }) => scopes.includes("keys:write")) &&
        " Keys that one of these keys created keep working. The page of each key names its creator."}
    </p>
    <div class="wide">
      {keys.map((key) => (
        <div>
          {isOwn ? (
            <p>
              <KeyName keyRow={key} />
            </p>
          ) : (
            <label>
              <input type="checkbox" name="revoke" value={key.id} checked aria-describedby={`about-${key.id}`} />
              <KeyName keyRow={key} />
            </label>
          )}
          <p class="help" id={`about-${key.id}`}>
            <KeyState status={statusOf(key, now)} /> {scopesInWords(key.scopes)},{" "}
            {key.lastUsedAt === null ? (
              <Unused keyRow={key} isCalled={false} />
            ) : (
              <>
                last used <Age timeMs={key.lastUsedAt} now={now} />
              </>
            )}
            . <a href={`/keys/${key.id}`}>View key</a>
          </p>
        </div>
      ))}
    </div>
  </fieldset>
);

/**
 * Removes the visitor from the account. The visitor's keys and webhooks stay unchanged, because the visitor may change nothing after the
 * removal.
 */
async function leave(c: PageContext, form: Form, member: Member) {
  if (form.all("revoke").length > 0)
    return showSettings(c, {
      formError: { summary: "Nothing was changed. Revoke your own keys on their pages first.", fieldErrors: new Map() },
    });
  const removed = await attempt(() => removeMember(contextOf(c), member));
  return "formError" in removed ? showSettings(c, { formError: removed.formError }) : backToSettings(c, "removed");
}

/** Removes a member, unless the member was already removed, and revokes the ticked keys. */
async function remove(c: PageContext, form: Form, member: Member) {
  const context = contextOf(c);
  const keyIds = form.all("revoke");
  const end = isFormer(member) ? revokeKeysOfFormer : removeWithKeys;
  const ended = await attempt(() => end(context, member, keyIds));
  if ("formError" in ended) return showSettings(c, { formError: ended.formError });
  const done = isFormer(member) ? "keys-revoked" : keyIds.length > 0 ? "removed-with-keys" : "removed";
  const left = (await hasKeysOfMember(context, member.id)) ? `&left=${member.id}` : "";
  return backToSettings(c, `${done}${left}`);
}
