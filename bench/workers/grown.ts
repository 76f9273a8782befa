import { connect } from "../../src/db/client.ts";
import { newId } from "../../src/lib/ids.ts";
import { dayMs, hourStart } from "../../src/lib/time/clock.ts";
import { firstLogWriter } from "../../src/log/databases.ts";
import type { Entry } from "../../src/log/entry.ts";
import { storeHistory } from "../../src/log/writer/store-history.ts";
import { benchEntry } from "./entry.ts";
import { rareStatus } from "./rare-status.ts";

export { KeyGuard } from "../../src/guard/key-guard.ts";
export { ActivityWriter } from "../../src/log/writer/activity-writer.ts";

const routes = ["/api/v1/me", "/api/v1/users", "/api/v1/users/{id}", "/api/v1/tasks", "/api/v1/tasks/{id}", "/api/v1/analytics"];
const statuses = [200, 200, 200, 200, 200, 200, 201, 204, 404, 422, 429, 503];
const oneIn = 100_000;
/** The maximum number of entries that D1 stores with one batch. */
const atOnce = 10_000;

/**
 * Writes `count` log entries for the first key, with the product's own code, oldest first. The log of `days` days consists of `parts` parts. Nine in
 * ten parts are spread over the days, and the rest is in the current hour. Returns some of the ids.
 */
export default {
  async fetch(request, env) {
    const number = (name: string) => Number(new URL(request.url).searchParams.get(name) ?? 0);
    const [count, part, parts] = [number("count"), number("part"), number("parts")];
    const key = await env.DB.prepare("SELECT id, account_id FROM api_keys LIMIT 1").first<{ id: string; account_id: string }>();
    if (!key || count === 0) return new Response("ready");
    const now = Date.now();
    const timeOf = (index: number) => {
      const share = (part + index / count) / parts;
      const hour = hourStart(now);
      if (share >= 0.9) return Math.floor(hour + ((now - hour) * (share - 0.9)) / 0.1);
      return Math.floor(hour - ((0.9 - share) / 0.9) * number("days") * dayMs);
    };
    const entries = Array.from({ length: count }, (_, index): Entry => {
      const isRare = (part * count + index) % oneIn === oneIn - 1;
      const status = isRare ? rareStatus : (statuses[Math.floor(Math.random() * statuses.length)] ?? 200);
      const route = routes[Math.floor(Math.random() * routes.length)] ?? "";
      return benchEntry(
        { accountId: key.account_id, id: newId("req", timeOf(index)), keyId: key.id },
        {
          path: route,
          route,
          status,
          durationMs: Math.floor(2 ** (Math.random() * 11)),
          errorCode: status === 429 ? "rate_limit_exceeded" : null,
          admitted: status !== 429,
          counted: status !== 429,
        },
      );
    });
    for (let from = 0; from < count; from += atOnce)
      await storeHistory(connect(env.ACTIVITY_0), firstLogWriter, entries.slice(from, from + atOnce), now);
    return Response.json(entries.filter((_, index) => index % Math.ceil(count / 20) === 0).map(({ id }) => id));
  },
} satisfies ExportedHandler<Env>;
