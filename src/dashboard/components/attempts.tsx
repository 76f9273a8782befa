import type { Child } from "hono/jsx";
import type { Attempt, Delivery } from "../../webhooks/read-deliveries.ts";
import { attemptsAfter, maxAttempts } from "../../webhooks/schedule.ts";
import { counted, integer } from "../format.ts";
import { Code } from "./secret.tsx";
import { StatusCode } from "./status.tsx";
import { Ahead, Moment } from "./time.tsx";

/** Returns the number of attempts that were counted but not stored. An attempt that is still running is excluded. */
const unrecorded = ({ attemptsMade, attempts, claim }: Delivery & { attempts: readonly Attempt[] }) =>
  attemptsMade - attempts.length - (claim === null ? 0 : 1);

/** Renders all past and planned attempts of a delivery, in order. */
export const Timeline = ({ delivery, now }: { delivery: Delivery & { attempts: readonly Attempt[] }; now: number }) => (
  <ol class="timeline" aria-label="Attempts">
    {delivery.attempts.map((each) => (
      <li class={each.error === null ? "good" : "bad"}>
        <span aria-hidden="true">{each.error === null ? "✓" : "✕"}</span> <Moment timeMs={each.at} />:{" "}
        {each.error === null ? "delivered" : each.status === null ? each.error : `response ${each.status}`}, {integer(each.durationMs)} ms
      </li>
    ))}
    {unrecorded(delivery) > 0 && (
      <li class="plain">
        <span aria-hidden="true">–</span> {counted(unrecorded(delivery), "attempt")} not recorded. The account had used up its storage, or
        the attempt was interrupted.
      </li>
    )}
    {delivery.status === "pending" && delivery.nextAttemptAt !== null && (
      <li class="plain">
        <span aria-hidden="true">◌</span> attempt {delivery.attemptsMade + 1} of {maxAttempts}:{" "}
        <Ahead timeMs={delivery.nextAttemptAt} now={now} />, <Moment timeMs={delivery.nextAttemptAt} />
      </li>
    )}
    {delivery.status === "pending" &&
      delivery.nextAttemptAt !== null &&
      attemptsAfter(delivery.attemptsMade, delivery.nextAttemptAt).map((at, index) => (
        <li class="later">
          <span aria-hidden="true">◌</span> attempt {delivery.attemptsMade + 2 + index}, if the attempts before it fail: about{" "}
          <Moment timeMs={at} />
        </li>
      ))}
  </ol>
);

/** Renders the request and the response of one attempt. */
export const AttemptPanel = ({ attempt: made, number, delivery }: { attempt: Attempt; number: number; delivery: Delivery }) => (
  <section class="panel" aria-labelledby={`attempt-${number}`}>
    <h2 id={`attempt-${number}`}>
      Attempt {number}: {made.status === null ? (made.error ?? "no response") : <StatusCode status={made.status} />}
    </h2>
    {made.advice && <p>{made.advice}</p>}
    <div class="columns">
      <div>
        <h3>Sent</h3>
        <Code label={`Headers of attempt ${number}`}>{`POST
content-type: application/json
webhook-id: ${delivery.eventId}
webhook-timestamp: ${Math.floor(made.at / 1000)}
webhook-signature: v1,…`}</Code>
      </div>
      <div>
        <h3>Response after {integer(made.durationMs)} ms</h3>
        <Code label={`Response to attempt ${number}`}>
          {made.status === null
            ? "no response"
            : [
                String(made.status),
                ...Object.entries(made.responseHeaders).map(([name, value]) => `${name}: ${value}`),
                "",
                made.responseBody,
              ].join("\n")}
        </Code>
        {made.bodyIsCut && <p class="help">The response was longer. Only the beginning of the response is kept.</p>}
      </div>
    </div>
  </section>
);

const resultOf = ({ status, error }: Attempt) => (status === null ? (error ?? "no response") : String(status));

const headersOf = ({ responseHeaders }: Attempt) =>
  Object.entries(responseHeaders)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n") || "none";

/**
 * Renders two attempts of a delivery side by side and marks the differences. `chosen` contains the numbers of the two attempts. The first
 * attempt of a delivery has the number 1.
 */
export const ComparedAttempts = ({
  delivery,
  chosen,
}: {
  delivery: Delivery & { attempts: readonly Attempt[] };
  chosen: [number, number];
}) => {
  const { attempts } = delivery;
  const [a, b] = chosen.map((number) => attempts[number - 1]);
  if (attempts.length < 2) return null;
  return (
    <section class="panel" aria-labelledby="compare">
      <h2 id="compare">Two attempts compared</h2>
      <form class="filters" method="get" action={`/deliveries/${delivery.id}#compare`}>
        {(["attempt", "with"] as const).map((name, place) => (
          <>
            <label for={`compare-${name}`}>{name === "attempt" ? "Attempt" : "with attempt"}</label>
            <select id={`compare-${name}`} name={name}>
              {attempts.map((_, index) => (
                <option value={index + 1} selected={chosen[place] === index + 1}>
                  {index + 1}
                </option>
              ))}
            </select>
          </>
        ))}
        <button type="submit">Compare</button>
      </form>
      {a && b && (
        <section class="scroll" tabindex={0} aria-label="Two attempts compared, as a table">
          <table class="cards compared">
            <thead>
              <tr>
                <td />
                {chosen.map((number) => (
                  <th scope="col">Attempt {number}</th>
                ))}
                <th scope="col">Same?</th>
              </tr>
            </thead>
            <tbody>
              <Compared numbers={chosen} name="When" is={[<Moment timeMs={a.at} />, <Moment timeMs={b.at} />]} />
              <Compared numbers={chosen} name="Result" is={[resultOf(a), resultOf(b)]} isSame={resultOf(a) === resultOf(b)} />
              <Compared numbers={chosen} name="Took" is={[`${integer(a.durationMs)} ms`, `${integer(b.durationMs)} ms`]} />
              <Compared
                numbers={chosen}
                name="Headers"
                is={[<pre>{headersOf(a)}</pre>, <pre>{headersOf(b)}</pre>]}
                isSame={headersOf(a) === headersOf(b)}
              />
              <Compared
                numbers={chosen}
                name="Body"
                is={[<pre>{a.responseBody || "none"}</pre>, <pre>{b.responseBody || "none"}</pre>]}
                isSame={a.responseBody === b.responseBody}
              />
            </tbody>
          </table>
        </section>
      )}
    </section>
  );
};

const Compared = ({ name, numbers, is, isSame }: { name: string; numbers: [number, number]; is: [Child, Child]; isSame?: boolean }) => (
  <tr>
    <th scope="row">{name}</th>
    {is.map((each, place) => (
      <td data-label={`Attempt ${numbers[place]}:`}>{each}</td>
    ))}
    <td>{isSame === undefined ? null : isSame ? <span class="quiet">= the same</span> : <strong>≠ different</strong>}</td>
  </tr>
);
