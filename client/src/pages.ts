import type { ApiClient } from "./client.ts";
import type { paths } from "./schema.ts";

/** One page of a list. */
export interface Page<Item> {
  data: Item[];
  /** The cursor of the next page. Send this value as the parameter `cursor`. On the last page, the value is null. */
  next_cursor: string | null;
  has_more: boolean;
}

type PageOf<Path extends keyof paths> = paths[Path] extends { get: { responses: { 200: { content: { "application/json": infer Body } } } } }
  ? Body extends Page<unknown>
    ? Body
    : never
  : never;

/** The paths that return pages. */
export type ListPath = { [Path in keyof paths]: [PageOf<Path>] extends [never] ? never : Path }[keyof paths];

export type ItemOf<Path extends ListPath> = PageOf<Path>["data"][number];

type ParametersOf<Path extends ListPath> = paths[Path] extends { get: { parameters: infer Parameters } } ? Parameters : never;

/** The largest page size that the API accepts. With larger pages, reading a whole list takes fewer requests. */
const maxPageSize = 100;

/** Reads the page after `cursor`. Without a cursor, reads the first page. */
type ReadPage<Item> = (query: { limit?: number; cursor?: string }) => Promise<Page<Item>>;

async function* items<Item>(read: ReadPage<Item>, signal: AbortSignal | undefined): AsyncGenerator<Item, void, undefined> {
  for (let cursor: string | undefined; ; ) {
    const page = await read({ limit: maxPageSize, ...(cursor !== undefined && { cursor }) });
    for (const item of page.data) {
      signal?.throwIfAborted();
      yield item;
    }
    if (page.next_cursor === null) return;
    cursor = page.next_cursor;
  }
}

/**
 * A list that loads its pages on demand. A `for await` loop yields every item of the list. The loop reads pages of 100 items, unless you set
 * `limit`. Awaiting the list returns one page.
 */
export class List<Item> implements PromiseLike<Page<Item>>, AsyncIterable<Item> {
  readonly #read: ReadPage<Item>;
  readonly #signal: AbortSignal | undefined;

  constructor(read: ReadPage<Item>, signal?: AbortSignal) {
    this.#read = read;
    this.#signal = signal;
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting a list returns one page, as in the clients of other APIs
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
 * Yields every item of a list, page by page. The list is named by its path:
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
