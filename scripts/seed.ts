import { createAccount } from "../src/accounts/account.ts";
import { operatorOn } from "../src/accounts/actor.ts";
import { firstLogWriter } from "../src/activity/databases.ts";
import { type Entry, notRecorded } from "../src/activity/entry.ts";
import { storeHistory } from "../src/activity/log-writer/store-history.ts";
import type { SigningSecret } from "../src/credentials/key-format.ts";
import type { Db } from "../src/db/client.ts";
import { newId } from "../src/ids/ids.ts";
import { createKey } from "../src/keys/create-key.ts";
import { type Scope, scopes } from "../src/keys/scopes.ts";
import { markSampleData } from "../src/operations/sample-data.ts";
import { servesSamples } from "../src/registry/manifests.ts";
import { dayMs, hourMs, hourStart } from "../src/time/clock.ts";
import type { WriteContext } from "../src/webhooks/outbox.ts";
import { commitTo } from "../src/webhooks/outbox.ts";
import { type Random, randomFrom, weighted } from "./seed-random.ts";
import { seedResources } from "./seed-resources.ts";

const days = 60;
const seedValue = 20_260;

/** Returns those of the given scopes that exist in this project. */
const only = (...names: string[]) => scopes.filter((scope) => names.includes(scope));

/**
 * Creates the demo account with the same code that the Worker uses. The account has keys, users and tasks. Its request log covers sixty
 * days and ends with the last full hour before `now`. Returns the secret of the demo key. This key has every scope and has made no
 * requests.
 */
export async function seedDemo({
  db,
  activity,
  signing,
  now,
}: {
  db: Db;
  activity: Db;
  signing: SigningSecret;
  now: number;
}): Promise<string> {
  const random = randomFrom(seedValue);
  const startsAt = now - days * dayMs;
  const account = await createAccount(
    { db, now: startsAt },
    { name: "Northwind Robotics", email: "ops@northwind.example", logWriter: firstLogWriter },
  );
  const at = (time: number): WriteContext => ({ db, now: time, actor: operatorOn(account.id), commit: commitTo({ db }) });
  const key = (name: string, given: readonly Scope[], hourlyLimit: number, madeAt: number) =>
    createKey({ ...at(madeAt), signing }, { name, scopes: [...given], hourlyLimit });

  const clients = [
    [(await key("Production backend", scopes, 5000, startsAt)).key.id, 62],
    [(await key("Mobile app", only("users:read", "tasks:read", "tasks:write"), 2000, startsAt + hourMs)).key.id, 27],
    [(await key("Nightly export", only("users:read", "tasks:read", "analytics:read"), 500, startsAt + 2 * hourMs)).key.id, 11],
  ] as const;
  const demo = await key("Demo key", scopes, 5000, now);

  if (servesSamples) await seedResources(random, at, startsAt, now);
  await storeHistory(activity, seedActivity(random, account.id, clients, startsAt, now), now);
  // Only data from before `now` is sample data. The demo key is created at `now`, so the demo key remains if the sample data is removed.
  await markSampleData(db, account.id, now);
  return demo.secretKey;
}

interface Call {
  method: string;
  route: string;
  status: number;
  /** The typical response time, in milliseconds. */
  typicalMs: number;
  errorCode?: string;
}

const callsOfSamples: [Call, number][] = [
  [{ method: "GET", route: "/api/v1/tasks", status: 200, typicalMs: 38 }, 34],
  [{ method: "GET", route: "/api/v1/tasks/{id}", status: 200, typicalMs: 21 }, 20],
  [{ method: "GET", route: "/api/v1/users", status: 200, typicalMs: 30 }, 14],
  [{ method: "GET", route: "/api/v1/users/{id}", status: 200, typicalMs: 19 }, 10],
  [{ method: "POST", route: "/api/v1/tasks", status: 201, typicalMs: 64 }, 8],
  [{ method: "PATCH", route: "/api/v1/tasks/{id}", status: 200, typicalMs: 71 }, 7],
  [{ method: "GET", route: "/api/v1/analytics", status: 200, typicalMs: 120 }, 3],
  [{ method: "GET", route: "/api/v1/tasks/{id}", status: 404, typicalMs: 18, errorCode: "not_found" }, 0.9],
  [{ method: "POST", route: "/api/v1/tasks", status: 422, typicalMs: 9, errorCode: "invalid_body" }, 0.5],
  [{ method: "PATCH", route: "/api/v1/tasks/{id}", status: 412, typicalMs: 22, errorCode: "precondition_failed" }, 0.2],
  [{ method: "GET", route: "/api/v1/keys", status: 403, typicalMs: 4, errorCode: "insufficient_scope" }, 0.15],
  [{ method: "GET", route: "/api/v1/tasks", status: 503, typicalMs: 900, errorCode: "unavailable" }, 0.06],
];

/** Requests to an API of the team, as `npm run sample-api` serves it. */
const callsOfTeam: [Call, number][] = [
  [{ method: "GET", route: "/orders", status: 200, typicalMs: 38 }, 48],
  [{ method: "GET", route: "/orders/{id}", status: 200, typicalMs: 21 }, 34],
  [{ method: "POST", route: "/orders", status: 201, typicalMs: 64 }, 15],
  [{ method: "GET", route: "/orders/{id}", status: 404, typicalMs: 18 }, 0.9],
  [{ method: "POST", route: "/orders", status: 422, typicalMs: 9 }, 0.5],
  [{ method: "GET", route: "/orders", status: 503, typicalMs: 900 }, 0.06],
];

const calls = servesSamples ? callsOfSamples : callsOfTeam;

const origins = [
  ["198.51.100.24", "DE", "northwind-backend/4.2 (node)"],
  ["203.0.113.77", "SE", "NorthwindMobile/2.8 (iOS 26)"],
  ["192.0.2.140", "PL", "curl/8.11.1"],
] as const;

/** Returns the entries of the request log, up to the last full hour before `now`. */
function seedActivity(
  random: Random,
  accountId: string,
  clients: readonly (readonly [string, number])[],
  startsAt: number,
  now: number,
): Entry[] {
  // The ids in the request paths are invented. No resources with these ids exist.
  const idFrom = (prefix: string) => newId("req", startsAt).replace("req", prefix);
  const ids = { users: idFrom("usr"), tasks: idFrom("tsk") };
  const entries: Entry[] = [];
  for (let hour = hourStart(startsAt); hour < hourStart(now); hour += hourMs) {
    const requests = Math.round(requestsIn(hour, startsAt) * (0.75 + random() * 0.5));
    for (let index = 0; index < requests; index++)
      entries.push(entryAt(random, hour + Math.floor(random() * hourMs), accountId, clients, ids));
  }
  return entries;
}

/**
 * Returns the average number of requests for an hour. Traffic is high in European working hours, and low at night and at weekends. Traffic
 * also grows over time.
 */
function requestsIn(hour: number, startsAt: number): number {
  const date = new Date(hour);
  const working = Math.max(0, Math.sin(((date.getUTCHours() - 5) / 14) * Math.PI));
  const weekend = [0, 6].includes(date.getUTCDay()) ? 0.35 : 1;
  const growth = 1 + ((hour - startsAt) / (days * dayMs)) * 0.25;
  return (8 + 92 * working) * weekend * growth;
}

function entryAt(
  random: Random,
  time: number,
  accountId: string,
  clients: readonly (readonly [string, number])[],
  ids: { users: string; tasks: string },
): Entry {
  const call = weighted(random, calls);
  const keyId = weighted(random, clients);
  const [ip, country, userAgent] = origins[clients.findIndex(([id]) => id === keyId)] ?? origins[0];
  const refused = call.errorCode === "insufficient_scope";
  return {
    accountId,
    id: newId("req", time),
    keyId,
    method: call.method,
    path: call.route.replace("{id}", call.route.includes("users") ? ids.users : call.route.includes("tasks") ? ids.tasks : "4711"),
    route: call.route,
    status: call.status,
    durationMs: Math.max(1, Math.round(call.typicalMs * Math.exp((random() + random() + random() - 1.5) * 0.9))),
    ip,
    country,
    userAgent,
    errorCode: call.errorCode ?? null,
    admitted: !refused,
    counted: !refused,
    count: 1,
    secret: "current",
    ...notRecorded,
  };
}
