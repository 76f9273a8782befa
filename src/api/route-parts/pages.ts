import { z } from "@hono/zod-openapi";
import { hashOf } from "../../crypto/hash.ts";
import { Failure } from "../../errors/failure.ts";
import { urlOf } from "../../http/request-url.ts";
import type { ApiContext } from "../context.ts";
import { respondJson } from "../respond.ts";

/** A page of a list, as every list responds. */
export const pageOf = <Item extends z.ZodType>(item: Item, name: string) =>
  z
    .strictObject({
      data: z.array(item).meta({ description: "The items of this page." }),
      next_cursor: z.string().nullable().meta({ description: "Send it as `cursor` for the next page. Null on the last.", example: null }),
      has_more: z.boolean().meta({
        description:
          "Whether there is a next page. May be true of a page that is short or empty: a filtered one looks at a bounded number of rows.",
        example: false,
      }),
    })
    .openapi(name, { description: "A page of a list." });

/**
 * Tells a cursor of this list from one of another: a checksum of the position and everything in the query but where the page begins and how
 * long it is. It is no secret: a position that somebody makes up shows nothing but the account's own.
 */
function checksumOf(c: ApiContext, position: unknown): string {
  const url = new URL(urlOf(c));
  url.searchParams.delete("cursor");
  url.searchParams.delete("limit");
  // The values of a filter that takes several may come in any order. The sort by name keeps the order of what has one name.
  const byValue = [...url.searchParams].toSorted(([, one], [, other]) => (one < other ? -1 : 1));
  url.search = new URLSearchParams(byValue).toString();
  url.searchParams.sort();
  return hashOf(`${url.pathname}${url.search}\n${JSON.stringify(position)}`).slice(0, 12);
}

const cursorOf = (c: ApiContext, position: unknown) =>
  Buffer.from(JSON.stringify({ at: position, checksum: checksumOf(c, position) })).toString("base64url");

/** The position that `cursor` stands for; undefined without one. Throws `invalid_cursor` for one that we did not give out for this list. */
export function positionAt<Position extends z.ZodType>(
  c: ApiContext,
  cursor: string | undefined,
  position: Position,
): z.infer<Position> | undefined {
  if (cursor === undefined) return undefined;
  try {
    const { at } = z.looseObject({ at: position }).parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
    if (cursor === cursorOf(c, at)) return at as z.infer<Position>;
  } catch {
    // Not ours; refused below.
  }
  throw new Failure("invalid_cursor", "This cursor was not given out for this list. Begin again without one.", {
    faults: [
      { parameter: "cursor", code: "invalid_cursor", detail: "Take `next_cursor` of the page before, with the same filters and order." },
    ],
  });
}

/** Responds with a page; `next` is the position after its last item, null where the list ends. */
export function respondPage<Item>(c: ApiContext, data: Item[], next: unknown) {
  const nextCursor = next === null ? null : cursorOf(c, next);
  return respondJson(c, { data, next_cursor: nextCursor, has_more: nextCursor !== null }, 200, linkTo(c, nextCursor));
}

function linkTo(c: ApiContext, nextCursor: string | null): Record<string, string> {
  if (nextCursor === null) return {};
  const url = new URL(urlOf(c));
  url.searchParams.set("cursor", nextCursor);
  return { Link: `<${url}>; rel="next"` };
}

/** Splits one row too many off a page: the items of the page, and the last of them where more follow. */
export function cut<Row>(rows: Row[], limit: number): { rows: Row[]; last: Row | null } {
  const page = rows.slice(0, limit);
  return { rows: page, last: rows.length > limit ? (page.at(-1) ?? null) : null };
}
