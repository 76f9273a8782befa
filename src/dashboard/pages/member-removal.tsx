import { Hono } from "hono";
import { always } from "../../db/optimistic-locking.ts";
import { Failure } from "../../errors.ts";
import { type Member, readMember, removeMember } from "../../identity/member.ts";
import { endsWith, type Invitation, listInvitations } from "../../identity/open-invitations.ts";
import { mayManage } from "../../identity/roles.ts";
import { maxLiveKeys } from "../../keys/bounds.ts";
import { type Key, statusOf } from "../../keys/key.ts";
import { disableKeysKnownTo, listKeysKnownTo } from "../../keys/keys-known-to.ts";
import { revokeKey } from "../../keys/revoke-key.ts";
import { scopesInWords } from "../../keys/scopes.ts";
import { listWebhooksOfMember } from "../../webhooks/list-webhooks-of-member.ts";
import type { Webhook } from "../../webhooks/webhook.ts";
import { keyWriting, reading, upToDate, writing } from "../acting.ts";
import { KeyText, Unused } from "../components/key-list.tsx";
import { showPage } from "../components/layout.tsx";
import { Alert } from "../components/notice.tsx";
import { KeyState } from "../components/status.tsx";
import { Age } from "../components/time.tsx";
import { idOf, type PageContext, type PageEnv, roleOf } from "../context.ts";
import { attempt, type Refused, readForm } from "../forms.ts";
import { showForbidden } from "../permissions.tsx";
import { backToSettings, showSettings } from "./settings.tsx";

/** The removal of a member, with the keys and invitations that they leave behind. */
export const memberRemovalPages = new Hono<PageEnv>();

/** As many as an account may have, and each is revoked in one request. */
const mostKeys = maxLiveKeys;

const isOwn = (c: PageContext, { id }: Member): boolean => c.get("visitor").signedIn?.member.id === id;

memberRemovalPages.get("/settings/people/:id/remove", async (c) => {
  const member = await readMember(reading(c), idOf(c));
  if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
  return showRemoval(c, member);
});

async function showRemoval(c: PageContext, member: Member, refused?: Refused) {
  const asking = await upToDate(c);
  const [keys, webhooks, invitations] = await Promise.all([
    listKeysKnownTo(asking, member.id, mostKeys),
    listWebhooksOfMember(asking, member.id),
    listInvitations(asking, endsWith(member, null)),
  ]);
  return showPage(
    c,
    {
      title: `Remove ${member.name}`,
      section: "Settings",
      trail: [["Settings", "/settings"]],
      ...(refused && { status: 409 }),
    },
    <section class="panel">
      <Alert refused={refused} />
      <p>
        <bdi>{member.name}</bdi> (<span class="break">{member.email}</span>) is{" "}
        {member.role === "viewer" || member.role === "developer" ? "a" : "an"} {member.role} of this account. Removing them ends their
        sessions, passkeys and recovery codes at once. To come back, they need a new invitation.
      </p>
      <EndingInvitations invitations={invitations} />
      <MadeWebhooks webhooks={webhooks} />
      <form class="form" method="post" action={`/settings/people/${member.id}/remove`}>
        <input type="hidden" name="listed" value="yes" />
        {keys.map(({ id }) => (
          <input type="hidden" name="shown" value={id} />
        ))}
        {keys.length > 0 && <KnownKeys keys={keys} isOwn={isOwn(c, member)} now={asking.now} />}
        <p class="buttons">
          <button class="danger" type="submit">
            <span>
              Remove <bdi>{member.name}</bdi>
            </span>
          </button>
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
        : "This member, or a key that they know, made or rotated these keys. The keys keep working. Tick the keys to revoke. Keys that are made from now on are revoked too. A revoked key never works again."}
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

memberRemovalPages.post("/settings/people/:id/remove", async (c) => {
  const form = await readForm(c);
  const member = await readMember(reading(c), idOf(c));
  if (!mayManage(roleOf(c.get("visitor")), member.role)) return showForbidden(c, "owners");
  const ticked = form.all("revoke");
  if (ticked.length > 0 && isOwn(c, member))
    return showSettings(c, { refused: { summary: "Nothing was changed: revoke your own keys on their pages first.", faults: new Map() } });
  const known = () => listKeysKnownTo(keyWriting(c), member.id, mostKeys);
  if (form.text("listed") === "" && (await known()).length > 0)
    return showRemoval(c, member, {
      summary: "Nobody was removed. The member knows keys. Check the list, then try again.",
      faults: new Map(),
    });
  const spared = isOwn(c, member) ? null : form.all("shown").filter((id) => !ticked.includes(id));
  // In the same write: otherwise such a key could make the next one before it is revoked.
  const removed = await attempt(() =>
    removeMember(writing(c), member, (when) => (spared === null ? [] : [disableKeysKnownTo(writing(c), member.id, { spared, when })])),
  );
  if ("refused" in removed) return showSettings(c, { refused: removed.refused });
  const ending = spared === null ? [] : (await known()).filter(({ id }) => !spared.includes(id));
  const failed = await revokeEach(c, ending);
  if (failed.length === 0) return backToSettings(c, ending.length > 0 ? "removed-with-keys" : "removed");
  const summary = `${member.name} was removed, but not every key is revoked. ${failed.join(" ")}`;
  return showSettings(c, { refused: { summary, faults: new Map() } });
});

/** Revokes keys, each by itself. Returns a sentence for each that could not be, or that is not in force yet. */
async function revokeEach(c: PageContext, keys: readonly Key[]): Promise<string[]> {
  const failed: string[] = [];
  for (const { id, name } of keys) {
    try {
      await revokeKey(keyWriting(c), id, always);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failed.push(`${name}: ${error.message}`);
    }
  }
  return failed;
}
