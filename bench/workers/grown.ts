import { type Entry, notRecorded } from "../../src/activity/entry.ts";
import { storeHistory } from "../../src/activity/store-history.ts";
import { connect } from "../../src/db/client.ts";
import { newId } from "../../src/ids/ids.ts";
import { dayMs, hourStart } from "../../src/time/clock.ts";

export { ActivityWriter } from "../../src/activity/activity-writer.ts";
export { KeyGuard } from "../../src/admission/key-guard.ts";

const routes = ["/api/v1/me", "/api/v1/users", "/api/v1/users/{id}", "/api/v1/tasks", "/api/v1/tasks/{id}", "/api/v1/analytics"];
const statuses = [200, 200, 200, 200, 200, 200, 201, 204, 404, 422, 429, 503];

/**
 * Writes `count` log entries for the first key, with the product's own code. A quarter of the entries are in the current hour, and the rest are
 * spread over the last 29 days.
 */
export default {
  async fetch(request, env) {
    const count = Number(new URL(request.url).searchParams.get("count") ?? 0);
    const key = await env.DB.prepare("SELECT id, account_id FROM api_keys LIMIT 1").first<{ id: string; account_id: string }>();
    if (!key) return new Response("ready");
    const now = Date.now();
    const entries = Array.from({ length: count }, (_, index): Entry => {
      const status = statuses[Math.floor(Math.random() * statuses.length)] ?? 200;
      const route = routes[Math.floor(Math.random() * routes.length)] ?? "";
      return {
        accountId: key.account_id,
        id: newId("req", now - Math.floor(Math.random() * (index % 4 === 0 ? now - hourStart(now) : 29 * dayMs))),
        keyId: key.id,
        method: "GET",
        path: route,
        route,
        status,
        durationMs: Math.floor(2 ** (Math.random() * 11)),
        ip: "198.51.100.7",
        country: "NL",
        userAgent: "bench/1.0",
        errorCode: status === 429 ? "rate_limit_exceeded" : null,
        admitted: status !== 429,
        counted: status !== 429,
        count: 1,
        secret: "current",
        ...notRecorded,
      };
    });
    await storeHistory(connect(env.ACTIVITY_0), entries, now);
    return Response.json({ count });
  },
} satisfies ExportedHandler<Env>;
