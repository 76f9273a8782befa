import type { NearestLimit } from "../../../admission/rate-limit-usage.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { dayMs } from "../../../lib/time/clock.ts";
import { NameLink } from "../../components/name-link.tsx";
import { Age, Ahead, Moment } from "../../components/time.tsx";
import { countdown, counted } from "../../format.ts";
import type { ShownWebhook } from "./read.ts";

export const expiresSoonMs = 14 * dayMs;
/** The number of lines about failing webhooks, and about keys that expire soon. */
const eachShown = 3;

/** Renders what needs somebody: a limit that is used up, a failing webhook, a key that expires soon. Renders nothing if nothing does. */
export const Attention = ({
  keys,
  webhooks,
  nearest,
  now,
}: {
  keys: readonly Key[];
  webhooks: readonly ShownWebhook[];
  nearest: NearestLimit | null;
  now: number;
}) => {
  const failing = webhooks.filter(({ status }) => status === "failing");
  const expiring = keys
    .filter((key) => statusOf(key, now) === "active" && key.expiresAt !== null && key.expiresAt - now < expiresSoonMs)
    .toSorted((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0));
  const isUsedUp = nearest !== null && nearest.used >= nearest.limit;
  if (!isUsedUp && failing.length + expiring.length === 0) return null;
  return (
    <ul class="attention" aria-label="What needs attention">
      {isUsedUp && (
        <li class="bad">
          {nearest.key === null ? (
            <>
              <a href="/limits">All keys together</a> have used up their limit per {nearest.per}, so all requests are refused
            </>
          ) : (
            <>
              <NameLink href={`/keys/${nearest.key.id}`} name={nearest.key.name} /> has used up its limit per {nearest.per}, so its requests
              are refused
            </>
          )}{" "}
          {nearest.per === "hour" ? (
            `for ${countdown(nearest.resetsAt, now)}`
          ) : (
            <>
              until <Moment timeMs={nearest.resetsAt} />
            </>
          )}
          .
        </li>
      )}
      {failing.slice(0, eachShown).map((webhook) => (
        <li class="bad">
          The webhook{" "}
          <a class="break" href={`/webhooks/${webhook.id}`}>
            {webhook.url}
          </a>{" "}
          is failing.
          {webhook.failingSince !== null && (
            <>
              {" "}
              The first failed attempt was <Age timeMs={webhook.failingSince} now={now} />.
            </>
          )}
        </li>
      ))}
      {failing.length > eachShown && (
        <li class="bad">
          <a href="/webhooks">{counted(failing.length - eachShown, "other webhook is failing", "other webhooks are failing")}</a>.
        </li>
      )}
      {expiring.slice(0, eachShown).map((key) => (
        <li class="warn">
          The key <NameLink href={`/keys/${key.id}`} name={key.name} /> expires <Ahead timeMs={key.expiresAt ?? now} now={now} />.
        </li>
      ))}
      {expiring.length > eachShown && (
        <li class="warn">
          <a href="/keys">{counted(expiring.length - eachShown, "other key expires", "other keys expire")} soon</a>.
        </li>
      )}
    </ul>
  );
};
