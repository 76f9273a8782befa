import { limitCeiling, maxLiveKeys } from "../../src/accounts/account.ts";
import { defaultQuotaBytes, inMib, maxStored, reserveBytes, storedNames } from "../../src/accounts/storage.ts";
import type { JsonObject } from "../../src/api/openapi/document.ts";
import { integer } from "../../src/dashboard/format.ts";
import { scannedAtOnce } from "../../src/db/page.ts";
import { servedManifests } from "../../src/db/registry/manifests.ts";
import { thresholds } from "../../src/guard/events.ts";
import { maxBodyBytes, maxWaitMs } from "../../src/http/body.ts";
import { maxOwn } from "../../src/identity/audit/own-sign-in.ts";
import { invitationMs as invitationKeptMs, maxMembers } from "../../src/identity/invitations.ts";
import { maxPasskeys } from "../../src/identity/passkeys.ts";
import { codesPerMember } from "../../src/identity/recovery-codes.ts";
import { maxSessionMs, sessionIdleMs, stepUpMs } from "../../src/identity/sessions.ts";
import { maxCreatedPerDay, reservedForRole } from "../../src/keys/bounds.ts";
import { expiryNoticeMs } from "../../src/keys/events.ts";
import { defaultScopes, scopes } from "../../src/keys/scopes.ts";
import { fieldErrorCodes } from "../../src/lib/errors/explanations.ts";
import { apiCodes, failures } from "../../src/lib/errors/failure.ts";
import { dayMs, secondMs } from "../../src/lib/time/clock.ts";
import { units } from "../../src/lib/time/relative-time.ts";
import { defaultDays } from "../../src/log/retention.ts";
import { maxOpened } from "../../src/log/segments/scan.ts";
import { maxSegmentEntries } from "../../src/log/segments/segment.ts";
import { maxAttemptsPerMinute } from "../../src/monitoring/sign-in-failures.ts";
import { auditRetentionMs } from "../../src/outbox/audit.ts";
import { eventCatalogue } from "../../src/outbox/catalogue.ts";
import { retentionMs as idempotencyKeptMs } from "../../src/outbox/idempotency/store.ts";
import { maxAtHost, maxInFlight, maxUnansweredOfAccount, maxUnansweredPerHour } from "../../src/outbox/in-flight.ts";
import { eventRetentionMs } from "../../src/outbox/retention.ts";
import { timeoutMs } from "../../src/webhooks/deliveries/attempt.ts";
import { maxFailingMs } from "../../src/webhooks/deliveries/deliver.ts";
import { delaysMs, jitter, maxAttempts, maxRetryAfterMs, paceMs } from "../../src/webhooks/deliveries/schedule.ts";
import { maxUnfinished } from "../../src/webhooks/redeliveries/redeliver-many.ts";
import { maxWebhooks } from "../../src/webhooks/subscriptions/write-webhooks.ts";
import { errorPath, eventPath, table } from "./markdown.ts";

/** Formats a duration in the largest unit that gives a whole number greater than 1: "5 seconds", "24 hours". */
function duration(ms: number): string {
  const [name, length] = units.find(([, length]) => ms % length === 0 && ms / length > 1) ?? (["second", secondMs] as const);
  return `${integer(ms / length)} ${name}${ms === length ? "" : "s"}`;
}

const list = (words: readonly string[]) => words.map((word) => `\`${word}\``).join(", ");

/** Returns the bounds for the page size and for the length of an Idempotency-Key. The bounds come from the OpenAPI document. */
function fromDocument(document: JsonObject): Record<string, string> {
  const { parameters } = document.components as { parameters: Record<string, { schema: Record<string, number> }> };
  const [limit, key] = [parameters.limit?.schema, parameters.IdempotencyKey?.schema];
  return {
    "page.min": String(limit?.minimum),
    "page.max": String(limit?.maximum),
    "page.default": String(limit?.default),
    "idempotency.min": String(key?.minLength),
    "idempotency.max": String(key?.maxLength),
  };
}

/** Returns the limits that the areas define: the maximum number of rows of each table, other limits, and notes about limits. */
function fromManifests(): Record<string, string> {
  const values = Object.fromEntries([
    ...storedNames.map(({ key, label }) => [`${label}.max`, integer(maxStored[key])]),
    ...servedManifests.flatMap(({ name, limits = {} }) =>
      Object.entries(limits).map(([limit, value]) => [`${name}.${limit}`, integer(value)]),
    ),
  ]);
  const stored = storedNames.map(({ key, label }) => `${integer(maxStored[key])} ${label}`);
  return {
    ...values,
    "stored.max": new Intl.ListFormat("en").format(stored),
    "resources.limits": servedManifests
      .flatMap(({ limitNotes = [] }) => limitNotes.map((note) => `- ${withFigures(note, values)}`))
      .join("\n"),
  };
}

/**
 * Returns the values for the names that guides contain in double braces. The values come from the code of the service, so the guides always
 * match the code.
 */
export const figures = (document: JsonObject, origin: string): Record<string, string> => ({
  origin,
  "limit.ceiling": integer(limitCeiling),
  "body.kib": String(maxBodyBytes / 1024),
  "body.wait": duration(maxWaitMs),
  "keys.max": String(maxLiveKeys),
  "keys.made": integer(maxCreatedPerDay),
  "keys.madeByAdmin": integer(reservedForRole),
  "keys.madeByOwner": integer(2 * reservedForRole),
  "members.max": integer(maxMembers),
  "passkeys.max": String(maxPasskeys),
  "signIn.changes": String(maxOwn["passkey.added"]),
  "signIn.recorded": String(maxOwn["session.started"]),
  "redeliveries.max": String(maxUnfinished),
  "keys.expiryNotice": duration(expiryNoticeMs),
  "scopes.all": list(scopes),
  "scopes.default": list(defaultScopes),
  "idempotency.retention": duration(idempotencyKeptMs),
  "storage.quota": inMib(defaultQuotaBytes),
  "storage.reserve": inMib(reserveBytes),
  "lists.scanned": integer(scannedAtOnce),
  "activity.retention": duration(defaultDays * dayMs),
  "activity.scanned": integer(maxOpened * maxSegmentEntries),
  "audit.retention": duration(auditRetentionMs),
  "webhooks.max": String(maxWebhooks),
  "webhooks.atOnce": String(maxInFlight.ofWebhook),
  "webhooks.atOnceOfAccount": String(maxInFlight.ofAccount),
  "webhooks.atHost": String(maxAtHost),
  "webhooks.unansweredPerHour": String(maxUnansweredPerHour),
  "webhooks.unansweredOfAccount": String(maxUnansweredOfAccount),
  "webhooks.attempts": String(maxAttempts),
  "webhooks.delays": delaysMs.map(duration).join(", "),
  "webhooks.timeout": duration(timeoutMs),
  "webhooks.jitter": `${jitter * 100} %`,
  "webhooks.maxRetryAfter": duration(maxRetryAfterMs),
  "webhooks.maxFailing": duration(maxFailingMs),
  "events.retention": duration(eventRetentionMs),
  "limit.lines": thresholds.map(([, share]) => `${share * 100} %`).join(" and at "),
  ...fromDocument(document),
  ...fromManifests(),
  "webhooks.pace": String(secondMs / paceMs),
  "session.idle": duration(sessionIdleMs),
  "session.max": duration(maxSessionMs),
  "session.stepUp": duration(stepUpMs),
  "invitation.expiry": duration(invitationKeptMs),
  "recovery.attempts": String(maxAttemptsPerMinute),
  "recovery.codes": String(codesPerMember),
  "errors.table": table(
    ["Status", "Code", "Description"],
    apiCodes.map((code) => [String(failures[code].status), `[\`${code}\`](${errorPath(code)})`, failures[code].title]),
  ),
  "errors.fieldErrors": table(
    ["Code", "What is wrong there"],
    Object.entries(fieldErrorCodes).map(([code, words]) => [`\`${code}\``, words]),
  ),
  "events.table": table(
    ["Type", "When", "Scope"],
    eventCatalogue.kinds.map(({ type, description, scope }) => [`[\`${type}\`](${eventPath(type)})`, description, `\`${scope}\``]),
  ),
});

/** Replaces each name in double braces with its value. Throws if a name is unknown. */
export const withFigures = (text: string, values: Record<string, string>): string =>
  text.replaceAll(/\{\{([\w.]+)\}\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`There is no figure with the name ${name}`);
    return value;
  });
