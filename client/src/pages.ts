import type { ApiClient } from "./client.ts";
import type { paths } from "./schema.ts";

/** One page of a list. */
export interface Page<Item> {
  data: Item[];
  /** Send it as `cursor` for the next page. Null on the last. */
  next_cursor: string | null;
  has_more: boolean;
}

type PageOf<Path extends keyof paths> = paths[Path] extends { get: { responses: { 200: { content: { "application/json": infer Body } } } } }
  ? Body extends Page<unknown>
    ? Body
    : never
  : never;

/** The paths that respond with pages. */
export type ListPath = { [Path in keyof paths]: [PageOf<Path>] extends [never] ? never : Path }[keyof paths];

export type ItemOf<Path extends ListPath> = PageOf<Path>["data"][number];

type ParametersOf<Path extends ListPath> = paths[Path] extends { get: { parameters: infer Parameters } } ? Parameters : never;

/** As many as a page may have: one that goes through a list wants all of it in few requests. */
const mostInPage = 100;

/** Reads the page after a cursor; the first without one. */
type ReadPage<Item> = (query: { limit?: number; cursor?: string }) => Promise<Page<Item>>;

async function* items<Item>(read: ReadPage<Item>, signal: AbortSignal | undefined): AsyncGenerator<Item, void, undefined> {
  for (let cursor: string | undefined; ; ) {
    const page = await read({ limit: mostInPage, ...(cursor !== undefined && { cursor }) });
    for (const item of page.data) {
      signal?.throwIfAborted();
      yield item;
    }
    if (page.next_cursor === null) return;
    cursor = page.next_cursor;
  }
}

/**
 * A list that is read when it is used. `for await` gives every item, page after page, a hundred at once unless `limit` says otherwise. `await` gives
 * one page.
 */
export class List<Item> implements PromiseLike<Page<Item>>, AsyncIterable<Item> {
  readonly #read: ReadPage<Item>;
  readonly #signal: AbortSignal | undefined;

  constructor(read: ReadPage<Item>, signal?: AbortSignal) {
    this.#read = read;
    this.#signal = signal;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is awaited for a page, as the clients of other APIs let one
  then<Result = Page<Item>, Failed = never>(
    resolved?: ((page: Page<Item>) => Result | PromiseLike<Result>) | null,
    rejected?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Result | Failed> {
    return this.#read({}).then(resolved, rejected);
  }

  [Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    return items(this.#read, this.#signal);
  }
}

/**
 * Every item of a list, page after page, by its path:
 * `for await (const task of pages(client, "/api/v1/tasks", { query: { status: ["todo"] }, signal }))`.
 */
export function pages<Path extends ListPath>(
  client: Pick<ApiClient, "GET">,
  path: Path,
  options: Partial<Pick<ParametersOf<Path>, keyof ParametersOf<Path> & ("query" | "path")>> & { signal?: AbortSignal } = {},
): AsyncGenerator<ItemOf<Path>, void, undefined> {
  const { signal, query, ...params } = options as { signal?: AbortSignal; query?: object };
  const get = client.GET as unknown as (path: string, init: object) => Promise<{ data: Page<ItemOf<Path>> }>;
  const read: ReadPage<ItemOf<Path>> = async (page) => {
    const { data } = await get(path, {
      params: { ...params, query: { limit: page.limit, ...query, ...(page.cursor !== undefined && { cursor: page.cursor }) } },
      signal,
    });
    return data;
  };
  return items(read, signal);
}
