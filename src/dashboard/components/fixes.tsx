import type { Child } from "hono/jsx";
import { rolesWith } from "../../identity/roles.ts";
import type { KeyRow } from "../../keys/key.ts";
import { teamName } from "../../lib/settings.ts";
import { anyOf, mayTouch, visitorMay, whoMayTouch } from "../access/permissions.tsx";
import type { PageContext } from "../context.ts";
import { newNonce } from "../form-idempotency.ts";
import { counted, integer } from "../format.ts";
import type { MadeDelivery, RequestDetails } from "../pages/request/read.ts";
import { Action, ButtonLink, fieldId } from "./fields.tsx";

/** What can be done about a denied request or a failed delivery: a button, or a sentence if nothing is left to do or the visitor may not do it. */
type Fix = { sentence: Child } | { button: (isOnly: boolean) => Child };

/** The number of buttons that a trace shows. A webhook can redeliver all its failed events. */
const maxButtons = 10;

const settingsOf = (key: KeyRow) => `/keys/${key.id}/settings`;

/** Returns the fix of a request that lacked a scope or exceeded a limit. */
function fixOfKey(c: PageContext, { entry, key }: RequestDetails, missingScope: string | undefined): Fix | null {
  if (key === null || key.state === "revoked") return null;
  if (missingScope !== undefined) {
    if (key.scopes.includes(missingScope))
      return {
        sentence: (
          <>
            The key has the scope <code>{missingScope}</code> now.
          </>
        ),
      };
    const added = [...key.scopes, missingScope];
    if (!mayTouch(c, added)) return { sentence: `${whoMayTouch(added)} can add the scope ${missingScope}.` };
    return {
      button: () => (
        <ButtonLink kind="main" href={`${settingsOf(key)}?add=${encodeURIComponent(missingScope)}#change`}>
          Add scope {missingScope}
        </ButtonLink>
      ),
    };
  }
  return entry.errorCode === "rate_limit_exceeded" ? fixOfLimit(c, entry, key) : null;
}

/** Returns the fix of a request that exceeded limits. The first of them that is a limit of the key alone is the one to raise. */
function fixOfLimit(c: PageContext, { violated, limits }: RequestDetails["entry"], key: KeyRow): Fix {
  const name = violated?.find((each) => !each.startsWith("account-")) ?? (violated?.length ? undefined : "hour");
  if (name === undefined) return { sentence: `Only ${teamName} can raise the limits that all keys share.` };
  const { limitCeiling, keyLimits } = c.get("visitor").account;
  const present = name === "hour" ? key.hourlyLimit : key.otherLimits.find(({ per }) => per === name)?.limit;
  const highest = name === "hour" ? limitCeiling : keyLimits.find(({ per }) => per === name)?.limit;
  const then = limits?.find((each) => each.name === name)?.limit;
  if (present === undefined && highest === undefined) return { sentence: `The key has no limit per ${name} now.` };
  if (present !== undefined && then !== undefined && present > then)
    return { sentence: `The limit of the key is ${integer(present)} per ${name} now.` };
  if (highest !== undefined && (present ?? highest) >= highest)
    return { sentence: `${integer(highest)} per ${name} is the highest limit of a key. Only ${teamName} can raise it.` };
  if (!mayTouch(c, key.scopes)) return { sentence: `${whoMayTouch(key.scopes)} can raise the limit.` };
  const field = name === "hour" ? "hourly_limit" : `limit_${name}`;
  return {
    button: (isOnly) => (
      <a class={isOnly ? "button main" : "button"} href={`${settingsOf(key)}#${fieldId(field)}`}>
        Raise the limit
      </a>
    ),
  };
}

/** Returns the fix of a delivery that failed or is held. A delivery that was repeated, or whose webhook was deleted, has none. */
function fixOfDelivery(c: PageContext, { caused }: RequestDetails, delivery: MadeDelivery): Fix | null {
  const { id, status, attempts, supersededBy, webhook, eventType, eventId } = delivery;
  const isFailing = status === "failed" || (status === "pending" && attempts.some(({ error }) => error !== null));
  if (supersededBy !== null || webhook === null || !(isFailing || status === "held")) return null;
  const mustEnable = webhook.state === "disabled";
  if (!visitorMay(c, "webhooks"))
    return { sentence: `${anyOf(rolesWith("webhooks"))} can ${mustEnable ? "enable the webhook" : "send the event again"}.` };
  const subject = caused.find(({ event }) => event.id === eventId)?.event.data.id ?? eventId;
  const of = `${eventType} of ${subject} to ${webhook.url}`;
  // Several buttons with the same text need their receiver beside them, and in their accessible name.
  const target = (isOnly: boolean) => !isOnly && <bdi class="quiet break">{of}</bdi>;
  if (mustEnable)
    return {
      button: (isOnly) => (
        <>
          <a
            class={isOnly ? "button main" : "button"}
            href={`/webhooks/${webhook.id}`}
            aria-label={isOnly ? undefined : `Enable the webhook, ${of}`}
          >
            Enable the webhook
          </a>
          {target(isOnly)}
        </>
      ),
    };
  const action = status === "pending" ? "attempt" : "redeliver";
  return {
    button: (isOnly) => (
      <>
        <Action
          action={`/deliveries/${id}/${action}`}
          kind={isOnly ? "main" : "plain"}
          hidden={status === "pending" ? {} : { nonce: newNonce() }}
          label={isOnly ? undefined : `Try again, ${of}`}
        >
          Try again
        </Action>
        {target(isOnly)}
      </>
    ),
  };
}

/** Renders what the visitor can do about a request, or who can. Renders nothing if there is nothing to do. */
export function Fixes({ c, details, missingScope }: { c: PageContext; details: RequestDetails; missingScope: string | undefined }) {
  const fixes = [fixOfKey(c, details, missingScope), ...details.deliveries.map((each) => fixOfDelivery(c, details, each))].filter(
    (fix) => fix !== null,
  );
  const buttons = fixes.flatMap((fix) => ("button" in fix ? [fix.button] : []));
  const sentences = fixes.flatMap((fix) => ("sentence" in fix ? [fix.sentence] : []));
  const [first] = buttons;
  return (
    <>
      {[...new Set(sentences)].map((sentence) => (
        <p class="quiet">{sentence}</p>
      ))}
      {first && buttons.length === 1 && <div class="buttons fixes">{first(true)}</div>}
      {buttons.length > 1 && (
        <ul class="fixes" aria-label="What you can do">
          {buttons.slice(0, maxButtons).map((button) => (
            <li class="buttons">{button(false)}</li>
          ))}
          {buttons.length > maxButtons && (
            <li class="quiet">
              {counted(buttons.length - maxButtons, "more delivery", "more deliveries")} can be sent again on the pages of their{" "}
              <a href="/webhooks">webhooks</a>.
            </li>
          )}
        </ul>
      )}
    </>
  );
}
