import { z } from "zod";
import { timeInQuery } from "../../../lib/inputs/values.ts";
import { methodForm } from "../../../lib/net/http-method.ts";
import { iso } from "../../../lib/time/clock.ts";
import { moment } from "../../../lib/time/moments.ts";
import type { ActivityFilter } from "../../../log/read/activity-filter.ts";
import { notReported } from "../../../usage/rollups.ts";
import type { PageContext } from "../../context.ts";
import { ownValue } from "../../forms.ts";

/** The methods that the page suggests. */
export const methods: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
export const statuses = ["2xx", "3xx", "4xx", "429", "5xx", "none"] as const;

/** A time as the API takes it. The fields of a form leave out the offset, which is then that of UTC, and seconds that are zero. */
const time = z
  .string()
  .transform((text) => text.replace(/T\d\d:\d\d$/, "$&:00").replace(/T[\d:.]+$/, "$&Z"))
  .pipe(timeInQuery);

/**
 * The filters of the request log, as query parameters of a page. The API has them too, except for the route. Several statuses are separated by commas. An
 * invalid filter value becomes undefined.
 */
const Query = z.object({
  method: z.string().regex(methodForm).optional().catch(undefined),
  status: z
    .string()
    .regex(/^(?:[1-5](?:xx|\d\d)|none)(?:,(?:[1-5](?:xx|\d\d)|none)){0,19}$/)
    .optional()
    .catch(undefined),
  key_id: z.string().min(1).max(64).optional().catch(undefined),
  path: z.string().min(1).max(1024).optional().catch(undefined),
  route: z.string().min(1).max(1024).optional().catch(undefined),
  from: time.optional().catch(undefined),
  to: time.optional().catch(undefined),
});

export type ActivityQuery = z.infer<typeof Query>;

/** Maps the words of a text filter to query parameters. A text filter looks like `method:POST status:5xx path:/api/v1/tasks`. */
const parameterOf: Record<string, string> = {
  method: "method",
  status: "status",
  key: "key_id",
  path: "path",
  route: "route",
  from: "from",
  to: "to",
};

/** Parses the filters in the query of a page. In the result, `ignored` lists the parts that are not valid filters. */
export function queryIn(c: PageContext) {
  const given = Object.fromEntries(
    Object.entries(c.req.query()).filter(([name, value]) => Object.hasOwn(Query.shape, name) && value !== ""),
  );
  const text = c.req.query("q") ?? "";
  const words = text.split(/\s+/).filter((word) => word !== "");
  const inText = words.flatMap((each) => {
    const [, word = "", value = ""] = /^(\w+):(\S+)$/.exec(each) ?? [];
    const name = ownValue(parameterOf, word);
    return name ? [[name, value] as const] : [];
  });
  const fields: Record<string, string> = { ...given, ...Object.fromEntries(inText) };
  // Methods know the difference of upper and lower case, but people do not always write it.
  if (fields.method && methods.includes(fields.method.toUpperCase())) fields.method = fields.method.toUpperCase();
  if (fields.status) fields.status = fields.status.toLowerCase();
  const query = Query.parse(fields);
  // Report each invalid filter to the reader instead of ignoring it silently.
  const ignored = [
    ...Object.entries(fields).flatMap(([name, value]) => (query[name as keyof typeof query] === undefined ? [`${name}:${value}`] : [])),
    ...words.filter((each) => !ownValue(parameterOf, /^(\w+):\S/.exec(each)?.[1] ?? "")),
  ];
  const { key_id: keyId, status, ...rest } = query;
  const statuses = status?.split(",").map((each) => (each === "none" ? notReported : Number(each.replace("xx", ""))));
  const filter: ActivityFilter = { ...rest, keyId, statuses };
  return { query, filter, ignored };
}

/** Formats filters as a text filter, for example `method:POST status:5xx`. */
export const asWords = (query: ActivityQuery) =>
  Object.entries(parameterOf)
    .flatMap(([word, name]) => {
      const value = query[name as keyof typeof query];
      return value === undefined ? [] : [`${word}:${typeof value === "number" ? iso(value) : value}`];
    })
    .join(" ");

/** Returns the texts that a reader may want next: the present filter with one more word. `keyNames`: the names of keys by their ids. */
export function suggestionsFor(query: ActivityQuery, keyNames: ReadonlyMap<string, string>): (readonly [text: string, name: string])[] {
  const words = [
    ...(query.status ? [] : statuses.map((each) => [`status:${each}`, each] as const)),
    ...(query.method ? [] : methods.map((each) => [`method:${each}`, each] as const)),
    ...(query.key_id ? [] : [...keyNames].map(([id, name]) => [`key:${id}`, name] as const)),
  ];
  return words.map(([word, name]) => [`${asWords(query)} ${word}`.trim(), name]);
}

/** An active filter, for a reader. `without`: the query without this filter. */
export interface FilterChip {
  name: string;
  value: string;
  without: ActivityQuery;
}

const words: Record<string, string> = {
  method: "Method",
  status: "Status",
  key_id: "Key",
  path: "Path",
  route: "Route",
  from: "From",
  to: "To",
};

/** Returns the active filters, one chip for each. `keyNames`: the names of keys by their ids. */
export const chipsOf = (query: ActivityQuery, keyNames: ReadonlyMap<string, string>): FilterChip[] =>
  Object.entries(words).flatMap(([name, word]) => {
    const value = query[name as keyof ActivityQuery];
    if (value === undefined) return [];
    const shown =
      typeof value === "number"
        ? moment(value)
        : name === "key_id"
          ? (keyNames.get(value) ?? value)
          : value === "none"
            ? "not reported"
            : value;
    return [{ name: word, value: shown, without: { ...query, [name]: undefined } }];
  });

/** Returns the path with the filters as its query string. `more` contains additional query parameters. */
export function addressOf(path: string, query: ActivityQuery, more: Record<string, string | undefined> = {}): string {
  const all = {
    ...query,
    from: query.from === undefined ? undefined : iso(query.from),
    to: query.to === undefined ? undefined : iso(query.to),
    ...more,
  };
  const text = new URLSearchParams(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)).toString();
  return text === "" ? path : `${path}?${text}`;
}
