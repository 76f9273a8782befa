import { Hono } from "hono";
import { always, versionName } from "../../db/optimistic-locking.ts";
import { Failure } from "../../errors.ts";
import type { EventCatalogue } from "../../events/catalogue.ts";
import { type Member, readPresentOrFormer, removeMember } from "../../identity/member.ts";
import { endsWith, type Invitation, listInvitations } from "../../identity/open-invitations.ts";
import { mayManage } from "../../identity/roles.ts";
import { maxLiveKeys } from "../../keys/bounds.ts";
import { type Key, statusOf } from "../../keys/key.ts";
import { disableKeysKnownTo, disableKeysOfFormer, listKeysKnownTo, tellDisabled } from "../../keys/keys-known-to.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { scopesInWords } from "../../keys/scopes.ts";
import { listWebhooksOfMember } from "../../webhooks/list-webhooks-of-member.ts";
import type { Webhook } from "../../webhooks/webhook.ts";
import { changeWebhook } from "../../webhooks/write-webhooks.ts";
import { keyWriting, reading, upToDate, webhookWriting, writing } from "../acting.ts";
import { KeyText, Unused } from "../components/key-list.tsx";
import { showPage } from "../components/layout.tsx";
import { Alert } from "../components/notice.tsx";
import { KeyState } from "../components/status.tsx";
import { Age } from "../components/time.tsx";
import { idOf, type PageContext, type PageEnv, roleOf } from "../context.ts";
import { attempt, type Form, type Refused, readForm } from "../forms.ts";
import { showForbidden } from "../permissions.tsx";
import { backToSettings, showSettings } from "./settings.tsx";

/** The removal of a member, with the keys, webhooks and invitations that they leave behind. Of a former member, what they have left behind. */
export function memberRemovalPages(catalogue: EventCatalogue) {
  const pages = new Hono<PageEnv>();

  pages.get("/settings/people/:id/remove", async (c) => {
    const member = await readPresentOrFormer(reading(c), idOf(c));
    if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
    return showRemoval(c, member);
  });

  pages.post("/settings/people/:id/remove", async (c) => {
    const form = await readForm(c);
    const member = await readPresentOrFormer(reading(c), idOf(c));
    if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
    return isOwn(c, member) ? leave(c, form, member) : remove(c, form, member, catalogue);
  });

  return pages;
}

/** As many as an account may have, and each is revoked in one request. */
const mostKeys = maxLiveKeys;

const isFormer = ({ removedAt }: Member): boolean => removedAt !== null;

const isOwn = (c: PageContext, { id }: Member): boolean => c.get("visitor").signedIn?.member.id === id;

async function showRemoval(c: PageContext, member: Member, refused?: Refused) {
  const asking = await upToDate(c);
  const [keys, webhooks, invitations] = await Promise.all([
    listKeysKnownTo(asking, member.id, mostKeys),
    listWebhooksOfMember(asking, member.id),
    listInvitations(asking, endsWith(member, null, asking.now)),
  ]);
  return showPage(
    c,
    {
      title: isFormer(member) ? `What ${member.name} left behind` : `Remove ${member.name}`,
      section: "Settings",
      trail: [["Settings", "/settings"]],
      ...(refused && { status: 409 }),
    },
    <section class="panel">
      <Alert refused={refused} />
      <p>
        <bdi>{member.name}</bdi> (<span class="break">{member.email}</span>){" "}
        {isFormer(member)
          ? `is no longer a member of this account. ${keys.length > 0 ? "Keys that they know still work." : "No key that they know works any more."}`
          : `is ${member.role === "viewer" || member.role === "developer" ? "a" : "an"} ${member.role} of this account. Removing them ends their sessions, passkeys and recovery codes at once. To come back, they need a new invitation.`}
      </p>
      <EndingInvitations invitations={invitations} />
      <MadeWebhooks webhooks={webhooks} />
      <form class="form" method="post" action={`/settings/people/${member.id}/remove`}>
        <input type="hidden" name="listed" value="yes" />
        {keys.map((key) => (
          <input type="hidden" name="shown" value={versionName(key)} />
        ))}
        {webhooks.map((webhook) => (
          <input type="hidden" name="shown_webhook" value={versionName(webhook)} />
        ))}
        {keys.length > 0 && <KnownKeys keys={keys} isOwn={isOwn(c, member)} now={asking.now} />}
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
      <h2>Webhooks that they made or changed</h2>
      <p>
        These webhooks keep sending events. Disable or delete the webhooks that must stop. Webhooks that they make or change from now on are
        disabled.
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
      <h2>Invitations that end with them</h2>
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

/** Shows the live keys whose secret the member may have, with a box to tick. Who removes themselves may revoke nothing after it. */
const KnownKeys = ({ keys, isOwn, now }: { keys: readonly Key[]; isOwn: boolean; now: number }) => (
  <fieldset class="field choices" aria-describedby="known-keys">
    <legend>Keys that they know</legend>
    <p id="known-keys">
      {isOwn
        ? "You, or a key that you know, made or rotated these keys. They keep working. Revoke the keys that must stop, on their pages, before you leave."
        : "This member, or a key that they know, made or rotated these keys. The keys keep working. Tick the keys to revoke. Keys that are made from now on are revoked too, and keys that are changed from now on are disabled. A revoked key never works again."}
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
              <Unused keyRow={key} />
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

/** Whether the form comes from a page that listed the keys. A member who knows none needs no list. */
const hasListed = (form: Form, known: readonly Key[]): boolean => form.text("listed") !== "" || known.length === 0;

const unlisted: Refused = {
  summary: "Nobody was removed. The member knows keys. Check the list, then try again.",
  faults: new Map(),
};

/** Removes the visitor. They may change nothing after it, so their keys and webhooks stay as they are. */
async function leave(c: PageContext, form: Form, member: Member) {
  if (form.all("revoke").length > 0)
    return showSettings(c, { refused: { summary: "Nothing was changed: revoke your own keys on their pages first.", faults: new Map() } });
  if (!hasListed(form, await listKnown(c, member))) return showRemoval(c, member, unlisted);
  const removed = await attempt(() => removeMember(writing(c), member));
  return "refused" in removed ? showSettings(c, { refused: removed.refused }) : backToSettings(c, "removed");
}

const listKnown = (c: PageContext, { id }: Member) => listKeysKnownTo(keyWriting(c), id, mostKeys);

/**
 * Removes a member. Of the keys that they know, those that the form shows and does not tick stay, where they are still as it shows them. One that was
 * changed since is disabled, and any other is revoked. A webhook of theirs that was made or changed since is disabled.
 */
async function remove(c: PageContext, form: Form, member: Member, catalogue: EventCatalogue) {
  if (!hasListed(form, await listKnown(c, member))) return showRemoval(c, member, unlisted);
  const ticked = form.all("revoke");
  const spared = form.all("shown").filter((shown) => !ticked.some((id) => shown.startsWith(`${id}.`)));
  // In the same write: otherwise such a key could make the next one before it is revoked.
  const removed = await attempt(() =>
    isFormer(member)
      ? disableKeysOfFormer(writing(c), member.id, spared)
      : removeMember(writing(c), member, (when) => [disableKeysKnownTo(writing(c), member.id, { spared, when })]),
  );
  if ("refused" in removed) return showSettings(c, { refused: removed.refused });
  const ending = (await listKnown(c, member)).filter((key) => !spared.includes(versionName(key)));
  const isSpared = ({ id }: Key) => spared.some((shown) => shown.startsWith(`${id}.`));
  // The keys first: they act, and webhooks only listen.
  const failed = await attemptEach(
    ending,
    ({ name }) => name,
    async (key) => {
      if (isSpared(key)) await tellDisabled(keyWriting(c), key.id);
      else await revokeKey(keyWriting(c), key.id, always);
    },
  );
  const webhooks = webhookWriting(c, catalogue);
  const changed = (await listWebhooksOfMember(webhooks, member.id)).filter(
    (each) => !form.all("shown_webhook").includes(versionName(each)),
  );
  failed.push(
    ...(await attemptEach(
      changed,
      ({ url }) => url,
      async ({ id }) => void (await changeWebhook(webhooks, id, { state: "disabled" }, always)),
    )),
  );
  if (failed.length > 0) {
    const summary = `${member.name} was removed, but not all that ends with them has ended: try again from the audit log. ${failed.join(" ")}`;
    return showSettings(c, { refused: { summary, faults: new Map() } });
  }
  if (isFormer(member)) return backToSettings(c, "ended-behind");
  if (changed.length > 0 || ending.some(isSpared)) return backToSettings(c, "removed-with-changed");
  return backToSettings(c, ending.length > 0 ? "removed-with-keys" : "removed");
}

/** Does the same with each, one after the other. Returns a sentence for each that could not be done, or that is not in force yet. */
async function attemptEach<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
  work: (item: Item) => Promise<void>,
): Promise<string[]> {
  const failed: string[] = [];
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failed.push(`${nameOf(item)}: ${error.message}`);
    }
  }
  return failed;
}
