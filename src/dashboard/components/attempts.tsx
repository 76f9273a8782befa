import type { PropsWithChildren } from "hono/jsx";
import type { Attempt, Delivery, WithAttempts } from "../../webhooks/deliveries/read-deliveries.ts";
import { attemptsAfter, maxAttempts } from "../../webhooks/deliveries/schedule.ts";
import { counted, integer } from "../format.ts";
import { Done } from "./notice.tsx";
import { Code } from "./secret.tsx";
import { resultOf, StatusCode } from "./status.tsx";
import { Ahead, Moment } from "./time.tsx";

/** Returns the number of attempts that were counted but not stored. An attempt that is still running is excluded. */
const unrecorded = ({ attemptsMade, attempts, claim }: WithAttempts) => attemptsMade - attempts.length - (claim === null ? 0 : 1);

/** Renders all past and planned attempts of a delivery, in order. Each past attempt opens to its request and response. The latest one is open. */
export const Timeline = ({ delivery, now }: { delivery: WithAttempts; now: number }) => {
  const { attempts, status, attemptsMade, nextAttemptAt } = delivery;
  // An attempt that is running is already counted.
  const finished = delivery.claim === null ? attemptsMade : attemptsMade - 1;
  const later = status === "pending" && nextAttemptAt !== null ? attemptsAfter(finished, nextAttemptAt) : [];
  const last = later.at(-1);
  return (
    <ol class="timeline" aria-label="Attempts">
      {attempts.map((each, index) => (
        <li>
          <PastAttempt attempt={each} number={index + 1} delivery={delivery} isOpen={index === attempts.length - 1} />
        </li>
      ))}
      {unrecorded(delivery) > 0 && (
        <li class="quiet">
          <span aria-hidden="true">–</span> {counted(unrecorded(delivery), "attempt")} not recorded. The account had used up its storage, or
          the attempt was interrupted.
        </li>
      )}
      {status === "pending" && nextAttemptAt !== null && delivery.claim !== null && (
        <li>
          <span aria-hidden="true">◌</span> Attempt {attemptsMade} of {maxAttempts}: running now
        </li>
      )}
      {status === "pending" && nextAttemptAt !== null && delivery.claim === null && (
        <li>
          <span aria-hidden="true">◌</span> Attempt {attemptsMade + 1} of {maxAttempts}: <Ahead timeMs={nextAttemptAt} now={now} />,{" "}
          <Moment timeMs={nextAttemptAt} />
        </li>
      )}
      {last !== undefined && (
        <li class="quiet">
          <details id="later">
            <summary>
              {counted(later.length, "more attempt")} if that one fails, the last at about <Moment timeMs={last} />
            </summary>
            <ol>
              {later.map((at, index) => (
                <li>
                  Attempt {finished + 2 + index}: about <Moment timeMs={at} />
                </li>
              ))}
            </ol>
          </details>
        </li>
      )}
    </ol>
  );
};

interface PastAttemptProps {
  attempt: Attempt;
  number: number;
  delivery: Delivery;
  isOpen: boolean;
}

const PastAttempt = ({ attempt: made, number, delivery, isOpen }: PastAttemptProps) => (
  <details open={isOpen} id={`attempt-${number}`}>
    <summary>
      Attempt {number}{" "}
      {made.status === null ? (
        <span class="state bad">
          <span aria-hidden="true">✕</span> {resultOf(made)}
        </span>
      ) : (
        <StatusCode status={made.status} />
      )}{" "}
      <span class="quiet">
        after {integer(made.durationMs)} ms, <Moment timeMs={made.at} />
      </span>
    </summary>
    <div class="columns">
      <div>
        <h3>Sent, with the body below</h3>
        <Code label={`Headers of attempt ${number}`}>{`POST
content-type: application/json
webhook-id: ${delivery.eventId}
webhook-timestamp: ${Math.floor(made.at / 1000)}
webhook-signature: v1,…`}</Code>
      </div>
      <div>
        <h3>Response</h3>
        <Code label={`Response to attempt ${number}`}>
          {made.status === null
            ? resultOf(made)
            : [String(made.status), headersOf(made), "", readable(made.responseBody)].join("\n").trim()}
        </Code>
        {made.bodyIsCut && <p class="help">The response was longer. Only the beginning of the response is kept.</p>}
      </div>
    </div>
  </details>
);

/** Returns JSON with one member per line, and any other text as it is. */
function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const headersOf = ({ responseHeaders }: Attempt) =>
  Object.entries(responseHeaders)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");

interface AttemptResultProps {
  id: string;
  /** The attempt, or undefined as long as it is not stored. */
  made: Attempt | undefined;
  /** What was sent, for example "The test event". */
  what: string;
  /** What to say as long as the attempt is not stored. */
  waiting: string;
  /** The API call that has the same effect. */
  call: string;
}

/** Renders the notice after a click that makes an attempt: first that it is made, and then its result. */
export const AttemptResult = ({ id, made, what, waiting, call, children }: PropsWithChildren<AttemptResultProps>) => (
  <div id={id} data-refresh={made === undefined || undefined}>
    {made === undefined || made.error === null ? (
      <Done call={call}>{made === undefined ? waiting : `${what} was accepted by the receiver: ${made.status}.`}</Done>
    ) : (
      <div class="note alert" role="status">
        <p>
          <span aria-hidden="true">✕</span> {what} failed: {resultOf(made)}. {made.advice}
        </p>
      </div>
    )}
    {made && children && <p class="buttons">{children}</p>}
  </div>
);
