import { Hono } from "hono";
import { Failure } from "../../../lib/errors/failure.ts";
import { timeOfId } from "../../../lib/ids.ts";
import { iso } from "../../../lib/time/clock.ts";
import type { ReadEntry } from "../../../log/read/read-activity.ts";
import { listActivity, requireComplete } from "../../../log/read/read-activity.ts";
import { needs } from "../../access/needs.ts";
import type { PageEnv } from "../../context.ts";
import { csvHeaders, csvOf, readRows } from "../../csv.ts";
import { contextOf } from "../../operation-contexts.ts";
import { queryIn } from "./query.ts";

/** The requests of the list as a file, with its filters. */
export const activityCsv = new Hono<PageEnv>().get("/activity.csv", needs("session"), async (c) => {
  const { filter, ignored } = queryIn(c);
  if (ignored.length > 0) throw new Failure("invalid_parameter", `The list cannot be filtered by ${ignored.join(" ")}.`);
  const context = contextOf(c);
  const { rows, areAll } = await readRows(async (position) => {
    const { entries, next } = requireComplete(await listActivity(context, { filter, ...position }));
    return { rows: entries, next };
  });
  const csv = await csvOf<ReadEntry>(
    {
      id: (entry) => entry.id,
      at: (entry) => iso(timeOfId(entry.id)),
      method: (entry) => entry.method,
      path: (entry) => entry.path,
      route: (entry) => entry.route,
      status: (entry) => entry.status,
      error_code: (entry) => entry.errorCode,
      duration_ms: (entry) => entry.durationMs,
      key_id: (entry) => entry.keyId,
      key_name: (entry) => entry.keyName,
      ip: (entry) => entry.ip,
      country: (entry) => entry.country,
      user_agent: (entry) => entry.userAgent,
      counted: (entry) => String(entry.counted),
      count: (entry) => entry.count,
      not_reported: (entry) => String(entry.status === null),
    },
    rows,
  );
  return c.body(csv, 200, csvHeaders("activity", areAll));
});
