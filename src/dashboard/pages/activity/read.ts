import { listActivity } from "../../../log/read/read-activity.ts";
import type { PageContext } from "../../context.ts";
import { readKeyChoices } from "../../key-choices.ts";
import { snapshotContext } from "../../operation-contexts.ts";
import { queryIn } from "./query.ts";

const shownAtOnce = 50;
const isCursor = (text: string) => /^req_[0-9a-f]+~?$/.test(text);
/** The number of pages to which the reader can go back one by one. */
const maxPagesBefore = 20;

/** Reads what the page of the request log shows: a page of the list. */
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
  const [list, keys] = await Promise.all([
    listActivity(context, { filter, after: after && isCursor(after) ? after : undefined, limit: shownAtOnce }),
    readKeyChoices(context),
  ]);
  return { now, query, ignored, isReversed, after, pagesBefore, list, keys };
}
