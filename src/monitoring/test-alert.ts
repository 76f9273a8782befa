import type { Announcement } from "./alerts.ts";
import type { Condition } from "./conditions.ts";
import { type AlertEnv, alertUrl, inRequests, postAlerts } from "./post-alerts.ts";

const condition: Condition = {
  name: "Test",
  part: null,
  about: "",
  severity: "ticket",
  forMs: 0,
  summary: "This is a test of the alerts. Nothing is wrong.",
  runbook: "README.md",
};

/** `problem`: why no further message was posted, or null. */
export interface TestedAlert {
  posted: number;
  problem: string | null;
}

/** Posts an alert that begins, and then its end, so that an operator sees whether alerts arrive. Returns the number of messages that the receiver took. */
export async function testAlert(env: AlertEnv, now: number): Promise<TestedAlert> {
  let posted = 0;
  try {
    const url = alertUrl(env);
    if (url === null) return { posted, problem: "ALERT_URL is not set, so alerts are off." };
    for (const endedAt of [null, now]) {
      const announcement: Announcement = { id: `${condition.name}/${now}`, condition, since: now, endedAt, announcedAt: null };
      for (const together of inRequests(url, [announcement])) {
        await postAlerts(env, url, together, now);
        posted++;
      }
    }
  } catch (error) {
    return { posted, problem: (error as Error).message };
  }
  return { posted, problem: null };
}
