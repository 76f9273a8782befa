import { Hono } from "hono";
import { maxLiveKeys } from "../../../accounts/account.ts";
import { versionName } from "../../../db/optimistic-locking.ts";
import { type Member, readCurrentOrFormerMember, removeMember } from "../../../identity/member.ts";
import { type Invitation, invitationsEndedBy, listInvitations } from "../../../identity/open-invitations.ts";
import { mayManage } from "../../../identity/roles.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { listKeysKnownTo } from "../../../keys/keys-known-to.ts";
import { scopesInWords } from "../../../keys/scopes.ts";
import { Failure } from "../../../lib/errors/failure.ts";
import { endOfFormer, finishEndings, removeWithKeys } from "../../../lifecycle/removal.ts";
import { listWebhooksOfMember } from "../../../webhooks/subscriptions/list-webhooks-of-member.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { needs } from "../../access/needs.ts";
import { showForbidden } from "../../access/permissions.tsx";
import { KeyText, Unused } from "../../components/key-list.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { KeyState } from "../../components/status.tsx";
import { Age } from "../../components/time.tsx";
import { idOf, type PageContext, type PageEnv, roleOf } from "../../context.ts";
import { attempt, type Form, type FormError, readForm } from "../../forms.ts";
import { contextOf, finishing, openLogContext } from "../../operation-contexts.ts";
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

/** The maximum number of live keys of an account. One request can revoke all of these keys. */
const maxKeys = maxLiveKeys;

const isFormer = ({ removedAt }: Member): boolean => removedAt !== null;

const isOwn = (c: PageContext, { id }: Member): boolean => c.get("visitor").signedIn?.member.id === id;

async function showRemoval(c: PageContext, member: Member, formError?: FormError) {
  const context = await openLogContext(c);
  const [keys, webhooks, invitations] = await Promise.all([
    listKeysKnownTo(context, member.id, maxKeys),
    listWebhooksOfMember(context, member.id),
    listInvitations(context, invitationsEndedBy(member, null, context.now)),
  ]);
  return showPage(
    c,
    {
      title: isFormer(member) ? `What ${member.name} left behind` : `Remove ${member.name}`,
      section: "Settings",
      trail: [["Settings", "/settings"]],
      ...(formError && { status: 409 }),
    },
    <section class="panel">
      <Alert formError={formError} />
      <p>
        <bdi>{member.name}</bdi> (<span class="break">{member.email}</span>){" "}
        {isFormer(member)
          ? `is no longer a member of this account. ${keys.length > 0 ? "Keys that they know still work." : "No key that they know works any more."}`
          : `is ${member.role === "viewer" || member.role === "developer" ? "a" : "an"} ${member.role} of this account. Removing them ends their sessions, passkeys and recovery codes at once. To come back, they need a new invitation.`}
      </p>
      <EndingInvitations invitations={invitations} />
      <MadeWebhooks webhooks={webhooks} />
      <form class="form" method="post" action={`/settings/members/${member.id}/remove`}>
        <input type="hidden" name="listed" value="yes" />
        {keys.map((key) => (
          <input type="hidden" name="shown" value={versionName(key)} />
        ))}
        {webhooks.map((webhook) => (
          <input type="hidden" name="shown_webhook" value={versionName(webhook)} />
        ))}
        {keys.length > 0 && <KnownKeys keys={keys} isOwn={isOwn(c, member)} now={context.now} />}
        <p class="buttons">
          {(keys.length > 0 || !isFormer(member)) && (
            <button class="danger" type="submit">
              {isFormer(member) ? (
                "Revoke the ticked keys"
              ) : (
                <span>
                  Remove <bdi>{member.name}</bdi>
                </span>
              )}
            </button>
          )}
          <a class="button" href="/settings">
            Cancel
          </a>
        </p>
      </form>
    </section>,
  );
}

const MadeWebhooks = ({ webhooks }: { webhooks: readonly Webhook[] }) =>
  webhooks.length === 0 ? null : (
    <>
      <h2>Webhooks that this member created or changed</h2>
      <p>
        These webhooks keep sending events. Disable or delete the webhooks that must stop. If this member creates or changes a webhook
        before you confirm, that webhook is disabled.
      </p>
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
 * Renders the live keys whose secrets the member may know. Each key has a checkbox to revoke the key. Members who remove themselves get no
 * checkboxes, because they may not revoke keys after the removal.
 */
const KnownKeys = ({ keys, isOwn, now }: { keys: readonly Key[]; isOwn: boolean; now: number }) => (
  <fieldset class="field choices" aria-describedby="known-keys">
    <legend>Keys whose secrets this member may know</legend>
    <p id="known-keys">
      {isOwn
        ? "You, or a key that you know, created or rotated these keys. The keys keep working. Revoke the keys that must stop, on their pages, before you leave."
        : "This member, or a key that they know, created or rotated these keys. The keys keep working. Tick the keys to revoke. Keys that are created from now on are revoked too, and keys that are changed from now on are disabled. A revoked key never works again."}
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
              <input type="checkbox" name="revoke" value={key.id} aria-describedby={`about-${key.id}`} />
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

/** Returns whether the form comes from a page that listed the keys. Also returns true if the member knows no keys. */
const hasListed = (form: Form, known: readonly Key[]): boolean => form.text("listed") !== "" || known.length === 0;

const unlisted: FormError = {
  summary: "Nobody was removed, because the member knows secrets of keys. Check the list, then try again.",
  fieldErrors: new Map(),
};

/**
 * Removes the visitor from the account. The visitor's keys and webhooks stay unchanged, because the visitor may change nothing after the
 * removal.
 */
async function leave(c: PageContext, form: Form, member: Member) {
  if (form.all("revoke").length > 0)
    return showSettings(c, {
      formError: { summary: "Nothing was changed. Revoke your own keys on their pages first.", fieldErrors: new Map() },
    });
  if (!hasListed(form, await listKnown(c, member))) return showRemoval(c, member, unlisted);
  const removed = await attempt(() => removeMember(contextOf(c), member));
  return "formError" in removed ? showSettings(c, { formError: removed.formError }) : backToSettings(c, "removed");
}

const listKnown = (c: PageContext, { id }: Member) => listKeysKnownTo(contextOf(c), id, maxKeys);

/** Removes a member, unless the member was already removed. Then ends keys and webhooks according to the form. */
async function remove(c: PageContext, form: Form, member: Member) {
  if (!hasListed(form, await listKnown(c, member))) return showRemoval(c, member, unlisted);
  const choice = { shownKeys: form.all("shown"), revoked: form.all("revoke"), shownWebhooks: form.all("shown_webhook") };
  const removing = contextOf(c);
  const removed = await attempt(() =>
    isFormer(member) ? endOfFormer(removing, member.id, choice) : removeWithKeys(removing, member, choice),
  );
  if ("formError" in removed) return showSettings(c, { formError: removed.formError });
  const { done, failed } = await finishEndings(finishing(c), member.accountId, Date.now());
  if (failed.length > 0) {
    const left = failed.map(({ name, error }) => (error instanceof Failure ? `${name}: ${error.message}` : name));
    const summary = `${member.name} was removed. Not everything that ends with this membership has ended yet: the rest follows within minutes. ${left.join(" ")}`;
    return showSettings(c, { formError: { summary, fieldErrors: new Map() } });
  }
  if (isFormer(member)) return backToSettings(c, "ended-behind");
  if (done.has("tell_disabled_key") || done.has("disable_webhook")) return backToSettings(c, "removed-with-changed");
  return backToSettings(c, done.has("revoke_key") ? "removed-with-keys" : "removed");
}
