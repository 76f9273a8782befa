import { denialContent } from "../src/admission/denials.ts";
import { servesSamples } from "../src/db/registry/manifests.ts";
import type { Key } from "../src/keys/key.ts";
import type { FailureContent } from "../src/lib/errors/failure.ts";
import { newId, timeOfId } from "../src/lib/ids.ts";
import { dayMs, dayStart, hourMs, hourStart, minuteMs } from "../src/lib/time/clock.ts";
import { type Entry, notRecorded } from "../src/log/entry.ts";
import { keptProblem } from "../src/log/kept-problem.ts";
import { type Random, weighted } from "./seed-random.ts";

/** A kind of request. */
export interface Call {
  method: string;
  route: string;
  status: number;
  /** The typical response time, in milliseconds. */
  typicalMs: number;
  /** The scope that the operation needs. Keys without this scope do not make the request, unless it is denied for that reason. */
  scope?: string;
  /** Why the request failed. */
  failure?: FailureContent;
}

/** A request that has changed something in the demo account. */
export interface Written {
  requestId: string;
  call: Call;
  path: string;
}

const tasksRoute = "/api/v1/tasks";
export const createUserCall: Call = { method: "POST", route: "/api/v1/users", status: 201, typicalMs: 58 };
export const createTaskCall: Call = { method: "POST", route: tasksRoute, status: 201, typicalMs: 64 };
export const patchTaskCall: Call = { method: "PATCH", route: `${tasksRoute}/{id}`, status: 200, typicalMs: 71 };

const invalidTask: FailureContent = {
  code: "invalid_body",
  message: "The body is valid JSON, but it does not match the schema of this operation.",
  fieldErrors: [
    { detail: "Must not be blank.", code: "too_small", pointer: "/title" },
    { detail: "Must be one of low, normal, high, urgent.", code: "invalid_value", pointer: "/priority" },
  ],
};
const missingTask: FailureContent = { code: "not_found", message: "There is no such task." };
const changedTask: FailureContent = {
  code: "precondition_failed",
  message: "The current version of the resource does not match If-Match.",
};
const unreachable: FailureContent = {
  code: "unavailable",
  message: "The service cannot reach its storage right now. Try again in a moment.",
};
const deniedKeys = denialContent("insufficient_scope", { scope: "keys:read" });

/** Requests to the sample resources. The requests that change something are made together with their changes (seed-resources.ts). */
const callsOfSamples: [Call, number][] = [
  [{ method: "GET", route: tasksRoute, status: 200, typicalMs: 38, scope: "tasks:read" }, 40],
  [{ method: "GET", route: `${tasksRoute}/{id}`, status: 200, typicalMs: 21, scope: "tasks:read" }, 26],
  [{ method: "GET", route: "/api/v1/users", status: 200, typicalMs: 30, scope: "users:read" }, 16],
  [{ method: "GET", route: "/api/v1/users/{id}", status: 200, typicalMs: 19, scope: "users:read" }, 13],
  [{ method: "GET", route: "/api/v1/analytics", status: 200, typicalMs: 120, scope: "analytics:read" }, 3],
  [{ method: "GET", route: `${tasksRoute}/{id}`, status: 404, typicalMs: 18, scope: "tasks:read", failure: missingTask }, 0.9],
  [{ method: "POST", route: tasksRoute, status: 422, typicalMs: 9, scope: "tasks:write", failure: invalidTask }, 0.6],
  [{ method: "PATCH", route: `${tasksRoute}/{id}`, status: 412, typicalMs: 22, scope: "tasks:write", failure: changedTask }, 0.25],
  [{ method: "GET", route: "/api/v1/keys", status: 403, typicalMs: 4, scope: "keys:read", failure: deniedKeys }, 0.4],
  [{ method: "GET", route: tasksRoute, status: 503, typicalMs: 900, scope: "tasks:read", failure: unreachable }, 0.06],
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
/** The call that most clients make. */
const usual = (servesSamples ? callsOfSamples : callsOfTeam)[0]?.[0] as Call;

const origins = [
  ["198.51.100.24", "DE", "northwind-backend/4.2 (node)"],
  ["203.0.113.77", "SE", "NorthwindMobile/2.8 (iOS 26)"],
  ["192.0.2.140", "PL", "curl/8.11.1"],
  ["198.51.100.201", "FR", "acme-partner/1.3 (python)"],
] as const;

/** The keys that make requests, each with its share of the requests. The second key reaches its limit. */
export type SeedClients = readonly [SeedClient, SeedClient, ...SeedClient[]];
type SeedClient = readonly [key: Key, share: number];

interface Seeding {
  random: Random;
  accountId: string;
  clients: SeedClients;
  // The ids in the request paths are invented. No resources with these ids exist.
  userId: string;
  taskId: string;
}

/** The number of requests that the second key makes in vain after it has reached its limit. */
const deniedRequests = 687;

/** The hour from noon of yesterday (UTC), in which the second key reaches its limit. The limit is used up at 12:41. */
const limitHour = (now: number): number => dayStart(now) - 12 * hourMs;
const limitReached = (now: number): number => limitHour(now) + 41 * minuteMs;

/** Returns the calls that a key makes, with their weights. */
const callsOf = ({ scopes }: Key): [Call, number][] =>
  calls.filter(
    ([{ scope, failure }]) => scope === undefined || scopes.some((each) => each === scope) !== (failure?.code === "insufficient_scope"),
  );

/**
 * Returns the entries of the request log, up to the last full hour before `now`, with an hour of denied requests. `written`: the requests that have changed
 * something, which the first key has made.
 */
export function seedTraffic(
  given: Omit<Seeding, "userId" | "taskId">,
  written: readonly Written[],
  startsAt: number,
  now: number,
): Entry[] {
  // A project without the sample resources has no ids of users and tasks.
  const idFrom = (prefix: string) => newId("req", startsAt).replace("req", prefix);
  const seeding = { ...given, userId: idFrom("usr"), taskId: idFrom("tsk") };
  const { random, clients } = seeding;
  const [[writer]] = clients;
  const entries = written.map(({ requestId: id, call, path }) => ({ ...entryOf(seeding, writer, timeOfId(id), call), id, path }));
  const callsByKey = new Map(clients.map(([key]) => [key, callsOf(key)]));
  for (let hour = hourStart(startsAt); hour < hourStart(now); hour += hourMs) {
    const requests = Math.round(requestsIn(hour, startsAt) * (0.75 + random() * 0.5));
    for (let index = 0; index < requests; index++) {
      const key = weighted(random, clients);
      const call = weighted(random, callsByKey.get(key) ?? calls);
      entries.push(entryOf(seeding, key, hour + Math.floor(random() * hourMs), call));
    }
  }
  return withLimits(clients, withLimitReached(seeding, entries, now));
}

/** Adds the state of the limit of the hour to each request that it counted. */
function withLimits(clients: SeedClients, entries: readonly Entry[]): Entry[] {
  const limits = new Map(clients.map(([{ id, hourlyLimit }]) => [id, hourlyLimit]));
  const counts = new Map<string, number>();
  return entries
    .toSorted((one, other) => timeOfId(one.id) - timeOfId(other.id))
    .map((entry) => {
      if (!entry.counted) return entry;
      const hour = `${entry.keyId} ${hourStart(timeOfId(entry.id))}`;
      const used = (counts.get(hour) ?? 0) + 1;
      counts.set(hour, used);
      return { ...entry, limits: [{ name: "hour", limit: limits.get(entry.keyId) ?? used, used }] };
    });
}

/** Replaces the requests of the second key in the hour of `limitHour`. In the new requests, the key uses up its limit and goes on. */
function withLimitReached(seeding: Seeding, entries: readonly Entry[], now: number): Entry[] {
  const { random, clients } = seeding;
  const [key] = clients[1];
  const [from, reached] = [limitHour(now), limitReached(now)];
  const isReplaced = ({ keyId, id }: Entry) => keyId === key.id && timeOfId(id) >= from && timeOfId(id) < from + hourMs;
  const requestAt = (time: number): Entry => entryOf(seeding, key, time, usual);
  const limit = { name: "hour", limit: key.hourlyLimit, used: key.hourlyLimit } as const;
  const { message } = denialContent("rate_limit_exceeded", { scope: null, limits: [{ ...limit, per: "hour", resetsAt: from + hourMs }] });
  const denial = {
    status: 429,
    durationMs: 2,
    errorCode: "rate_limit_exceeded",
    admitted: false,
    counted: false,
    violated: ["hour"],
    limits: [limit],
    problem: { detail: message, errors: [] },
  };
  return [
    ...entries.filter((entry) => !isReplaced(entry)),
    ...Array.from({ length: key.hourlyLimit }, () => requestAt(from + Math.floor(random() * (reached - from)))),
    ...Array.from({ length: deniedRequests }, () => ({ ...requestAt(reached + Math.floor(random() * 16 * minuteMs)), ...denial })),
  ];
}

/**
 * Returns the average number of requests for an hour. Traffic is high in European working hours, and low at night and at weekends. Traffic
 * also grows over time.
 */
function requestsIn(hour: number, startsAt: number): number {
  const date = new Date(hour);
  const working = Math.max(0, Math.sin(((date.getUTCHours() - 5) / 14) * Math.PI));
  const weekend = [0, 6].includes(date.getUTCDay()) ? 0.35 : 1;
  const growth = 1 + ((hour - startsAt) / (60 * dayMs)) * 0.25;
  return (8 + 92 * working) * weekend * growth;
}

function entryOf({ random, accountId, clients, userId, taskId }: Seeding, key: Key, time: number, call: Call): Entry {
  const place = clients.findIndex(([{ id }]) => id === key.id);
  const [ip, country, userAgent] = origins[place] ?? origins[0];
  const isDenied = call.failure?.code === "insufficient_scope";
  return {
    accountId,
    id: newId("req", time),
    keyId: key.id,
    method: call.method,
    path: call.route.replace("{id}", call.route.includes("users") ? userId : call.route.includes("tasks") ? taskId : "4711"),
    route: call.route,
    status: call.status,
    durationMs: Math.max(1, Math.round(call.typicalMs * Math.exp((random() + random() + random() - 1.5) * 0.9))),
    ip,
    country,
    userAgent,
    errorCode: call.failure?.code ?? null,
    admitted: !isDenied,
    counted: !isDenied,
    count: 1,
    secret: "current",
    ...notRecorded,
    problem: call.failure ? keptProblem(call.failure) : null,
  };
}
