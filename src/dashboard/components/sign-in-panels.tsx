import type { Member } from "../../identity/member.ts";
import { maxListed, type Session, type SignedIn } from "../../identity/sessions.ts";
import type { Passkey } from "../../identity/webauthn.ts";
import { deviceOf } from "../access/device.ts";
import { newNonce } from "../form-idempotency.ts";
import { Action } from "./fields.tsx";
import { Age } from "./time.tsx";

/** Renders the live sessions that the visitor may end. */
export const SessionsPanel = ({
  sessions,
  signedIn,
  now,
}: {
  sessions: readonly { session: Session; member: Member }[];
  signedIn: SignedIn;
  now: number;
}) => (
  <section class="panel" aria-labelledby="sessions">
    <h2 id="sessions">Sessions</h2>
    <ul class="lines">
      {sessions.map(({ session, member }) => (
        <li>
          <bdi>{member.name}</bdi>
          {session.id === signedIn.session?.id && <strong>this session</strong>}
          <span class="quiet" title={session.userAgent ?? undefined}>
            {deviceOf(session.userAgent)}
          </span>
          <span class="quiet">
            {[session.ip, session.country].filter(Boolean).join(", ")} · seen <Age timeMs={session.lastSeenAt} now={now} />
          </span>
          <Action action={`/settings/sessions/${session.id}/end`}>End session</Action>
        </li>
      ))}
    </ul>
    {signedIn.session && sessions.filter(({ member }) => member.id === signedIn.member.id).length > 1 && (
      <p class="buttons">
        <Action action="/settings/sessions/end-others">Sign out everywhere else</Action>
      </p>
    )}
    {sessions.length === maxListed && <p>The list shows your own sessions and the latest sessions of other members.</p>}
    <p class="quiet">
      A session ends if you do not open a page for twelve hours. Every session ends after fourteen days. A session that another app has
      opened ends after one day.
    </p>
  </section>
);

/** Renders the visitor's passkeys and the number of unused recovery codes. */
export const SignInPanel = ({ passkeys, codesLeft, now }: { passkeys: readonly Passkey[]; codesLeft: number; now: number }) => (
  <section class="panel" aria-labelledby="sign-in">
    <h2 id="sign-in">Your sign-in</h2>
    <h3>Passkeys</h3>
    <ul class="lines">
      {passkeys.map((passkey) => (
        <li>
          <bdi>{passkey.name}</bdi>
          <span class="quiet">
            created <Age timeMs={passkey.createdAt} now={now} />
            {passkey.lastUsedAt !== null && (
              <>
                , used <Age timeMs={passkey.lastUsedAt} now={now} />
              </>
            )}
          </span>
          {passkeys.length > 1 && <Action action={`/settings/passkeys/${passkey.id}/remove`}>Remove</Action>}
        </li>
      ))}
    </ul>
    {passkeys.length > 1 && <p class="quiet">If you remove a passkey, the sessions that were opened or confirmed with it end.</p>}
    <form class="form" method="post" action="/settings/passkeys" data-passkey="add">
      <input type="hidden" name="response" value="" data-response />
      <div class="field">
        <label for="passkey-name">Name of a new passkey</label>
        <input id="passkey-name" name="name" maxlength={100} value="Another passkey" required />
      </div>
      <button type="submit" data-needs-script hidden>
        Add a passkey
      </button>
      <p class="field-error" role="alert" data-error hidden />
    </form>
    <h3>Recovery codes</h3>
    <p>
      {codesLeft === 0
        ? "You have no codes left. Create new codes."
        : `You have ${codesLeft} of 8 codes left. New codes replace these codes, and end the sessions that used them.`}
    </p>
    <div class="buttons">
      <Action action="/settings/recovery-codes" hidden={{ nonce: newNonce() }}>
        Create new recovery codes
      </Action>
    </div>
  </section>
);
