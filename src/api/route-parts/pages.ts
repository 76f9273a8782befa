import { z } from "@hono/zod-openapi";
import { urlOf } from "../../http/request-url.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { Failure } from "../../lib/errors/failure.ts";
import type { RouteContext } from "../context.ts";
import { respondJson } from "../respond.ts";

/** Returns the schema of one page of a list. `more`: further members of the page. */
export const pageOf = <Item extends z.ZodType, More extends z.ZodRawShape = Record<never, never>>(item: Item, name: string, more?: More) =>
  z
    .strictObject({
      data: z.array(item).meta({ description: "The items on this page." }),
      next_cursor: z.string().nullable().meta({ description: "The `cursor` of the next page, or null on the last page.", example: null }),
      has_more: z.boolean().meta({
        description:
          "Whether there is a next page. In a filtered list, each request reads a limited number of rows. A page can therefore be short or empty, even if `has_more` is true.",
        example: false,
      }),
      ...(more as More),
    })
    .openapi(name, { description: "One page of a list." });

/** The position in a list that is sorted by creation time. Rows of the same time are sorted by id. */
export const CreatedPosition = z.strictObject({ createdAt: z.int(), id: z.string() });
export const createdPositionOf = ({ createdAt, id }: z.infer<typeof CreatedPosition>) => ({ createdAt, id });

/**
 * Returns a checksum that makes a cursor valid for only one list. The checksum covers the path, the position, and all query parameters
 * except `cursor` and `limit`. The checksum does not need to be secret, because a forged position shows only data of the same account.
 */
function checksumOf(c: RouteContext, position: unknown): string {
  const url = new URL(urlOf(c));
  url.searchParams.delete("cursor");
  url.searchParams.delete("limit");
  // Sort by value first, because a client may send the values of a repeated parameter in any order. `searchParams.sort` is stable, so
  // parameters with the same name stay sorted by value.
  const byValue = [...url.searchParams].toSorted(([, one], [, other]) => (one < other ? -1 : 1));
  url.search = new URLSearchParams(byValue).toString();
  url.searchParams.sort();
  return hashOf(`${url.pathname}${url.search}\n${JSON.stringify(position)}`).slice(0, 12);
}

const cursorOf = (c: RouteContext, position: unknown) =>
  Buffer.from(JSON.stringify({ at: position, checksum: checksumOf(c, position) })).toString("base64url");

/**
 * Returns the position that `cursor` encodes, or undefined if there is no cursor. Throws `invalid_cursor` if the service did not issue the
 * cursor for this list.
 */
export function positionAt<Position extends z.ZodType>(
  c: RouteContext,
  cursor: string | undefined,
  position: Position,
): z.infer<Position> | undefined {
  if (cursor === undefined) return undefined;
  try {
    const { at } = z.looseObject({ at: position }).parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
    if (cursor === cursorOf(c, at)) return at as z.infer<Position>;
  } catch {
    // A malformed cursor gets the same error as a cursor of another list.
  }
  throw new Failure("invalid_cursor", "This cursor does not belong to this list. Start again without a cursor.", {
    fieldErrors: [
      {
        parameter: "cursor",
        code: "invalid_cursor",
        detail: "Send the `next_cursor` of the previous page, with the same filters and order.",
      },
    ],
  });
}

/**
 * Responds with a page of a list. `next` is the position after which the next page starts, or null on the last page. `more`: further members of the
 * body.
 */
export function respondPage<Item, More extends object = object>(c: RouteContext, data: Item[], next: unknown, more?: More) {
  const nextCursor = next === null ? null : cursorOf(c, next);
  return respondJson(
    c,
    { data, next_cursor: nextCursor, has_more: nextCursor !== null, ...more } as PageBody<Item> & More,
    200,
    linkTo(c, nextCursor),
  );
}

interface PageBody<Item> {
  data: Item[];
  next_cursor: string | null;
  has_more: boolean;
}

function linkTo(c: RouteContext, nextCursor: string | null): Record<string, string> {
  if (nextCursor === null) return {};
  const url = new URL(urlOf(c));
  url.searchParams.set("cursor", nextCursor);
  return { Link: `<${url}>; rel="next"` };
}
