import type { ApiClient } from "./client.ts";
import type { paths } from "./schema.ts";

interface Page {
  data: unknown[];
  next_cursor: string | null;
  has_more: boolean;
}

type PageOf<Path extends keyof paths> = paths[Path] extends { get: { responses: { 200: { content: { "application/json": infer Body } } } } }
  ? Body extends Page
    ? Body
    : never
  : never;

/** The paths that answer with pages. */
export type ListPath = { [Path in keyof paths]: [PageOf<Path>] extends [never] ? never : Path }[keyof paths];

export type ItemOf<Path extends ListPath> = PageOf<Path>["data"][number];

type ParametersOf<Path extends ListPath> = paths[Path] extends { get: { parameters: infer Parameters } } ? Parameters : never;

/** Every item of a list, page after page: `for await (const task of pages(client, "/api/v1/tasks", { query: { status: ["todo"] } }))`. */
export async function* pages<Path extends ListPath>(
  client: ApiClient,
  path: Path,
  parameters: Partial<Pick<ParametersOf<Path>, keyof ParametersOf<Path> & ("query" | "path")>> = {},
): AsyncGenerator<ItemOf<Path>, void, undefined> {
  const { query = {}, ...rest } = parameters as { query?: Record<string, unknown> };
  const get = client.GET as unknown as (path: string, init: object) => Promise<{ data: Page }>;
  for (let cursor: string | undefined; ; ) {
    const { data: page } = await get(path, { params: { ...rest, query: { ...query, ...(cursor !== undefined && { cursor }) } } });
    yield* page.data as ItemOf<Path>[];
    if (page.next_cursor === null) return;
    cursor = page.next_cursor;
  }
}
