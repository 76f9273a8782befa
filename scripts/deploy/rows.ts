import { jsonIn, wrangler } from "./wrangler.ts";

/** A database, as the arguments of `wrangler d1` name it. */
export interface Source {
  which: string;
  where: "--local" | "--remote";
  config: string;
}

/** Returns the rows of a query of a database. */
export async function rowsOf<Row>({ which, where, config }: Source, query: string): Promise<Row[]> {
  const { out } = await wrangler(["d1", "execute", which, where, "--json", "--command", query], { config });
  const [result] = jsonIn(out) as { results: Row[] }[];
  return result?.results ?? [];
}
