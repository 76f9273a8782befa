import { timeOfId } from "../../../lib/ids.ts";
import { hasStatus } from "../../../log/read/activity-filter.ts";
import { listActivity } from "../../../log/read/read-activity.ts";
import { readSeries } from "../../../usage/read-usage.ts";
import type { Span } from "../../../usage/windows.ts";
import type { PageContext } from "../../context.ts";
import { readKeyChoices } from "../../key-choices.ts";
import { snapshotContext } from "../../operation-contexts.ts";
import { queryIn } from "./query.ts";
import { around, lastMonth, spanOfBars, stepOfBars } from "./spans.ts";

const shownAtOnce = 50;
const isCursor = (text: string) => /^req_[0-9a-f]+~?$/.test(text);
/** The number of pages to which the reader can go back one by one. */
const maxPagesBefore = 20;

/** Reads what the page of the request log shows: a page of the list, and the bars above it. */
export async function readActivityPage(c: PageContext) {
  const context = await snapshotContext(c);
  const { now } = context;
  const { query, filter, ignored } = queryIn(c);
  const isReversed = query.from !== undefined && query.to !== undefined && query.from > query.to;
  const after = c.req.query("after");
  const pagesBefore = (c.req.query("before") ?? "")
    .split(".")
    .filter((each) => isCursor(each))
    .slice(-maxPagesBefore);
  const listed = spanOfBars(query, now);
  const span = around(listed, now);
  const readBars = (of: Span) =>
    readSeries(context, of, stepOfBars(of), {
      keyId: query.key_id,
      route: query.route,
      counts: filter.statuses && ((status) => hasStatus(filter.statuses, status)),
    }).catch(() => []);
  const [list, keys, latest] = await Promise.all([
    listActivity(context, { filter, after: after && isCursor(after) ? after : undefined, limit: shownAtOnce }),
    readKeyChoices(context),
    readBars(span),
  ]);
  // Without a filter, the list can be older than the last 24 hours.
  const [newestEntry] = list.entries;
  const isAnyTime = query.from === undefined && query.to === undefined;
  const isOlder = isAnyTime && newestEntry !== undefined && timeOfId(newestEntry.id) < span.from;
  const chart = isOlder ? { span: lastMonth(now), series: await readBars(lastMonth(now)) } : { span, series: latest };
  return { now, query, ignored, isReversed, after, pagesBefore, list, keys, chart: { ...chart, listed, isOlder } };
}
