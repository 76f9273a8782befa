import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { alerting } from "../../../src/db/areas/monitoring/tables.ts";
import { databaseSizes } from "../../../src/db/tables.ts";
import { hourMs, hourStart, minuteMs } from "../../../src/lib/time/clock.ts";
import { noHealth } from "../../../src/log/writers.ts";
import {
  type AlertState,
  announced,
  announcementsOf,
  nextStates,
  noAlerting,
  sampled,
  unreadParts,
} from "../../../src/monitoring/alerts.ts";
import { type Condition, conditionsOf } from "../../../src/monitoring/conditions.ts";
import type { DeploymentStatus } from "../../../src/monitoring/deployment-status.ts";
import { alertUrl, bodyOf, inRequests } from "../../../src/monitoring/post-alerts.ts";
import { sendAlerts } from "../../../src/monitoring/send-alerts.ts";
import { testAlert } from "../../../src/monitoring/test-alert.ts";
import { call, db, makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { newPath, receivedAt, receiver } from "../support/receiver.ts";

const now = Date.parse("2026-11-27T03:00:00Z");

const healthy: DeploymentStatus = {
  accounts: 1,
  suspended: 0,
  liveKeys: 1,
  waitingKeys: 0,
  missingSecrets: [],
  backlog: { pending: 0, due: 0, oldestDueAt: null, failingWebhooks: 0, disabledWebhooks: 0 },
  log: noHealth(),
  databases: [{ binding: "DB", bytes: 1e9, isFull: false, measuredAt: now }],
  jobs: [{ name: "sweep_deliveries", description: "", ranAt: now, tookMs: 1, done: 0, hasMore: false, error: null }],
  signInFailures: {},
  unknown: [],
};

const namesOf = (changes: Partial<DeploymentStatus>, recent = { requests: 1000, failed: 0 }) =>
  conditionsOf({ ...healthy, ...changes, recent, now, deployedAt: null, needsLost: null }).map(({ name }) => name);

describe("The conditions that need a person", () => {
  it("are none in a healthy deployment", () => expect(namesOf({})).toEqual([]));

  it.each<[string, Partial<DeploymentStatus>]>([
    ["CronDead", { jobs: healthy.jobs.map((job) => ({ ...job, ranAt: now - 6 * minuteMs })) }],
    ["JobFailed", { jobs: healthy.jobs.map((job) => ({ ...job, error: "D1 does not respond" })) }],
    ["KeysUnconfirmed", { waitingKeys: 1 }],
    ["SecretMissing", { missingSecrets: ["KEY_SIGNING_SECRETS_2"] }],
    ["LogWaits", { log: { ...noHealth(), oldestWaitingAt: now - 11 * minuteMs } }],
    ["LogEntriesDropped", { log: { ...noHealth(), lost: { dropped: 1, droppedAt: now - minuteMs, tooOld: 0, closedReports: 0 } } }],
    ["LogWritersUnreachable", { log: { ...noHealth(), unreachable: ["ACTIVITY_0/1"] } }],
    ["LogEntriesHinted", { log: { ...noHealth(), hinted: 1 } }],
    ["LogUnreadable", { log: { ...noHealth(), unreadable: 1 } }],
    ["DeliveriesWait", { backlog: { pending: 1, due: 1, oldestDueAt: now - 11 * minuteMs, failingWebhooks: 0, disabledWebhooks: 0 } }],
    ["DatabaseNearlyFull", { databases: [{ binding: "DB", bytes: 8.5e9, isFull: false, measuredAt: now }] }],
    ["DatabaseFull", { databases: [{ binding: "DB", bytes: 9.5e9, isFull: true, measuredAt: now }] }],
    ["PartUnreadable", { unknown: ["the delivery backlog"] }],
  ])("include %s", (name, changes) => expect(namesOf(changes)).toEqual([name]));

  it("are unknown if their part cannot be read", () => {
    const unread = unreadParts(
      { ...healthy, unknown: ["the delivery backlog"], log: { ...noHealth(), unreachable: ["ACTIVITY_0/1"] } },
      null,
    );
    expect([...unread].toSorted()).toEqual(["requests", "the delivery backlog", "the log writers"]);
    expect(unreadParts(healthy, { requests: 0, failed: 0 }).size).toBe(0);
  });

  it("do not include a dead cron if the times of the jobs cannot be read", () =>
    expect(namesOf({ jobs: [], unknown: ["the scheduled jobs"] })).toEqual(["PartUnreadable"]));

  it("include failing requests only if there are enough of them to say so", () => {
    expect(namesOf({}, { requests: 1000, failed: 11 })).toEqual(["RequestsFail"]);
    expect(namesOf({}, { requests: 1000, failed: 10 })).toEqual([]);
    expect(namesOf({}, { requests: 99, failed: 99 })).toEqual([]);
  });

  it("do not include entries that were dropped more than an hour ago, or a late job beside a failed one", () => {
    const lost = { dropped: 1, droppedAt: now - hourMs - 1, tooOld: 0, closedReports: 0 };
    expect(namesOf({ log: { ...noHealth(), lost } })).toEqual([]);
    const jobs = [...healthy.jobs, { ...(healthy.jobs[0] as (typeof healthy.jobs)[number]), name: "other", ranAt: now - 3 * hourMs }];
    expect(namesOf({ jobs })).toEqual(["JobLate"]);
  });
});

const condition: Condition = {
  name: "LogWaits",
  part: "the log writers",
  about: "",
  severity: "ticket",
  forMs: 10 * minuteMs,
  summary: "Waiting.",
  runbook: "x.md",
};

/**
 * Runs cron once a minute. `holds`: whether the condition holds in each minute, or null if its part cannot be read. Returns the minutes in which the
 * beginning and the end are announced.
 */
function minutesOf(holds: (minute: number) => boolean | null, minutes: number, of = condition): string[] {
  let states: AlertState[] = [];
  const seen: string[] = [];
  for (let minute = 0; minute < minutes; minute++) {
    const at = now + minute * minuteMs;
    const unread = new Set(holds(minute) === null ? [of.part] : []);
    states = nextStates(states, holds(minute) ? [of] : [], unread, at);
    const announcements = announcementsOf(states, at);
    for (const { endedAt } of announcements) seen.push(`${minute} ${endedAt === null ? "begins" : "ends"}`);
    states = announced(states, announcements, at);
  }
  return seen;
}

describe("An alert", () => {
  it("begins when its condition has held for its time, and ends when the condition does", () => {
    expect(minutesOf((minute) => minute >= 5 && minute < 40, 60)).toEqual(["15 begins", "40 ends"]);
  });

  it("is not announced if its condition ends early", () => expect(minutesOf((minute) => minute % 9 !== 0, 60)).toEqual([]));

  it("is repeated every four hours", () => expect(minutesOf(() => true, 500)).toEqual(["10 begins", "251 begins", "492 begins"]));

  it("is announced at most once in half an hour if it begins and ends again and again", () => {
    const seen = minutesOf((minute) => minute % 15 !== 14, 120);
    expect(seen.filter((each) => each.endsWith("begins")).length).toBeLessThanOrEqual(4);
  });

  it("ends only if it was announced: an alert that begins and ends each minute is not announced each minute", () => {
    const seen = minutesOf((minute) => minute % 2 === 0, 100, { ...condition, forMs: 0 });
    expect(seen).toEqual(["0 begins", "1 ends", "32 begins", "33 ends", "64 begins", "65 ends", "96 begins", "97 ends"]);
  });

  it("is ended for the receiver even if the first attempt to say so failed and the condition came back meanwhile", () => {
    const brief = { ...condition, forMs: 0 };
    let states: AlertState[] = [];
    const seen: string[] = [];
    for (const [minute, holds] of [true, true, false, true, true, false].entries()) {
      const at = now + minute * minuteMs;
      states = nextStates(states, holds ? [brief] : [], new Set(), at);
      const announcements = announcementsOf(states, at);
      for (const { endedAt } of announcements) seen.push(`${minute} ${endedAt === null ? "begins" : "ends"}`);
      // In the minute 2, the receiver does not respond.
      if (minute !== 2) states = announced(states, announcements, at);
    }
    expect(seen).toEqual(["0 begins", "2 ends", "5 ends"]);
  });

  it("goes on while nobody can say whether its condition holds", () => {
    expect(minutesOf((minute) => (minute === 20 ? null : minute < 40), 60)).toEqual(["10 begins", "40 ends"]);
    // What was not known to hold does not begin.
    expect(minutesOf(() => null, 60)).toEqual([]);
  });
});

it("Requests are compared with the oldest count of the last five minutes", () => {
  const first = sampled(noAlerting, { requests: 100, failed: 0 }, now);
  expect(first.recent).toBeNull();
  const second = sampled({ states: [], samples: first.samples }, { requests: 300, failed: 4 }, now + 4 * minuteMs);
  expect(second.recent).toEqual({ requests: 200, failed: 4 });
  const third = sampled({ states: [], samples: second.samples }, { requests: 350, failed: 4 }, now + 8 * minuteMs);
  expect(third.recent).toEqual({ requests: 50, failed: 0 });
  const lower = sampled({ states: [], samples: third.samples }, { requests: 3, failed: 0 }, now + 9 * minuteMs);
  expect([lower.recent, lower.samples.length]).toEqual([null, 1]);
});

it("PagerDuty gets a request for each alert, which it joins with the request that ends the alert", () => {
  const url = new URL("https://events.pagerduty.com/v2/enqueue?routing_key=r0uting");
  const alert = { id: "LogWaits", condition, since: now, endedAt: null, announcedAt: null };
  const other = { ...alert, id: "DatabaseFull/DB", endedAt: now + hourMs };
  const requests = inRequests(url, [alert, other]);
  expect(requests.map((each) => bodyOf(url, { PUBLIC_ORIGIN: "https://api.example" }, each))).toMatchObject([
    {
      routing_key: "r0uting",
      event_action: "trigger",
      dedup_key: "https://api.example LogWaits",
      payload: { summary: "LogWaits: Waiting.", source: "https://api.example", severity: "warning", timestamp: "2026-11-27T03:00:00.000Z" },
    },
    { event_action: "resolve", dedup_key: "https://api.example DatabaseFull/DB" },
  ]);
});

it("Google Chat gets only the text, because it refuses every other member", () => {
  const url = new URL("https://chat.googleapis.com/v1/spaces/a/messages?key=b&token=c");
  const alert = { id: "LogWaits", condition, since: now, endedAt: null, announcedAt: null };
  const body = bodyOf(url, { PUBLIC_ORIGIN: "https://api.example" }, [alert]);
  expect(body).toEqual({ text: expect.stringContaining("LogWaits: Waiting.") });
});

describe("ALERT_URL", () => {
  const markFull = () => db.insert(databaseSizes).values({ binding: "TEST", bytes: 9.9e9, isFull: true, measuredAt: now });
  const reset = () => Promise.all([db.delete(alerting), env.DB.prepare("DELETE FROM database_sizes WHERE binding = 'TEST'").run()]);
  const secret = `whsec_${Buffer.from("a-secret-of-the-alerts".padEnd(32, "-")).toString("base64")}`;

  it("gets a signed message that Slack understands, once when an alert begins and once when it ends", async () => {
    await reset();
    const path = newPath();
    const alertEnv = { ...env, ALERT_URL: `${receiver}${path}`, ALERT_SECRET: secret };
    await markFull();
    const at = Date.now();
    expect(await sendAlerts(db, alertEnv, at)).toBeGreaterThanOrEqual(1);
    await sendAlerts(db, alertEnv, at + minuteMs);
    await env.DB.prepare("DELETE FROM database_sizes WHERE binding = 'TEST'").run();
    await sendAlerts(db, alertEnv, at + 2 * minuteMs);
    const received = (await receivedAt(path)).filter(({ body }) => body.includes("DatabaseFull/TEST"));
    expect(received).toHaveLength(2);
    const [begun, ended] = received.map(({ body, headers }) => new Webhook(secret).verify(body, headers as Record<string, string>)) as {
      text: string;
      alerts: { id: string; severity: string; runbook: string; ended_at: string | null }[];
    }[];
    expect(begun?.text).toContain("PAGE DatabaseFull: The database TEST is full. (docs/runbooks/full-database.md)");
    const own = begun?.alerts.find(({ id }) => id === "DatabaseFull/TEST");
    expect(own).toMatchObject({ severity: "page", runbook: "docs/runbooks/full-database.md", ended_at: null });
    expect(ended?.text).toContain("OVER DatabaseFull");
    await reset();
  });

  it("says within an hour that a webhook needs a lost secret, and goes on until it looks again", async () => {
    await reset();
    const path = newPath();
    const alertEnv = { ...env, ALERT_URL: `${receiver}${path}` };
    const { key } = await makeTenant();
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["*"] } });
    await env.DB.prepare("UPDATE webhooks SET encrypted_secret = 'y' || substr(encrypted_secret, 2) WHERE id = ?").bind(webhook.id).run();
    const hour = hourStart(Date.now()) + hourMs;
    const statesAt = async (at: number) => {
      await sendAlerts(db, alertEnv, at);
      return (await receivedAt(path)).filter(({ body }) => body.includes("SecretMissing")).length;
    };
    expect([await statesAt(hour - minuteMs), await statesAt(hour)]).toEqual([0, 1]);
    await env.DB.prepare("DELETE FROM webhooks WHERE id = ?").bind(webhook.id).run();
    expect(await statesAt(hour + minuteMs)).toBe(1);
    await reset();
  });

  it("gets the same alert again in the next minute if it did not respond with 2xx", async () => {
    await reset();
    const path = newPath("fail");
    await markFull();
    const alertEnv = { ...env, ALERT_URL: `${receiver}${path}`, ALERT_SECRET: secret };
    const at = Date.now();
    for (const minute of [0, 1]) await expect(sendAlerts(db, alertEnv, at + minute * minuteMs)).rejects.toThrow("responded with 500");
    const received = await receivedAt(path);
    expect([received.length, received.every(({ body }) => body.includes("DatabaseFull/TEST"))]).toEqual([2, true]);
    // The receiver can tell that it is the same message.
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    await reset();
  });

  it("gets a test that begins and ends, and the operator is told why it does not arrive", async () => {
    const [path, failing] = [newPath(), newPath("fail")];
    expect(await testAlert({ ...env, ALERT_URL: `${receiver}${path}`, ALERT_SECRET: secret }, Date.now())).toEqual({
      posted: 2,
      problem: null,
    });
    const received = await receivedAt(path);
    const texts = received.map(
      ({ body, headers }) => (new Webhook(secret).verify(body, headers as Record<string, string>) as { text: string }).text,
    );
    expect(texts.map((text) => text.split("\n")[1]?.split(":")[0])).toEqual(["TICKET Test", "OVER Test"]);
    expect(await testAlert({ ...env, ALERT_URL: `${receiver}${failing}` }, Date.now())).toEqual({
      posted: 0,
      problem: "the receiver of alerts responded with 500",
    });
    expect((await operate("POST", "/alerts/test")).body).toEqual({ posted: 0, problem: "ALERT_URL is not set, so alerts are off." });
  });

  it("gets one alert while the main database refuses changes, and its end", async () => {
    await reset();
    const path = newPath();
    const alertEnv = { ...env, ALERT_URL: `${receiver}${path}` };
    const refuse = (verb: string) =>
      env.DB.prepare(`CREATE TRIGGER refuse_${verb} BEFORE ${verb} ON alerting BEGIN SELECT raise(ABORT, 'D1 refuses changes'); END`).run();
    await Promise.all(["INSERT", "UPDATE"].map(refuse));
    const at = Date.now();
    for (const minute of [0, 1, 2]) await expect(sendAlerts(db, alertEnv, at + minute * minuteMs)).rejects.toThrow();
    for (const verb of ["INSERT", "UPDATE"]) await env.DB.prepare(`DROP TRIGGER refuse_${verb}`).run();
    await sendAlerts(db, alertEnv, at + 3 * minuteMs);
    const about = (await receivedAt(path)).flatMap(({ body }) => (JSON.parse(body) as { text: string }).text.split("\n"));
    expect(about.filter((line) => line.includes("DatabaseRefusesChanges"))).toEqual([
      "PAGE DatabaseRefusesChanges: The main database can be read, but it refuses changes. (docs/runbooks/database-away.md)",
      "OVER DatabaseRefusesChanges: The main database can be read, but it refuses changes. (docs/runbooks/database-away.md)",
    ]);
    await reset();
  });

  it("is off if it is empty, and must use TLS, the routing key of PagerDuty and a secret of whsec_ and base64", () => {
    const urlOf = (settings: object) => alertUrl({ PUBLIC_ORIGIN: "", ...settings });
    const [url, pagerDuty] = ["https://alerts.example.com", "https://events.pagerduty.com/v2/enqueue"];
    expect(urlOf({})).toBeNull();
    for (const ALERT_URL of ["http://hooks.example.com/x", "ftp://x", "hooks"]) expect(() => urlOf({ ALERT_URL })).toThrow("https://");
    expect(() => urlOf({ ALERT_URL: pagerDuty })).toThrow("routing_key");
    expect(urlOf({ ALERT_URL: `${pagerDuty}?routing_key=r0uting` })).not.toBeNull();
    for (const ALERT_SECRET of ["hunter2", "whsec_", "whsec_a b", secret.slice(6), secret.slice(0, -1)])
      expect(() => urlOf({ ALERT_URL: url, ALERT_SECRET })).toThrow("ALERT_SECRET must be whsec_ and base64");
    for (const ALERT_SECRET of ["", secret]) expect(urlOf({ ALERT_URL: url, ALERT_SECRET })).not.toBeNull();
  });
});
