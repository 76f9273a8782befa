import { createHash, randomUUID } from "node:crypto";
import { unstable_splitSqlQuery } from "wrangler";
import type { Account, Database } from "./account.ts";
import { splitAsD1 } from "./d1.ts";
import { type AddEndpoint, ApiError, type EndpointContext, now } from "./endpoint.ts";

/** Uploaded and exported SQL files by their name, for each account. */
const files = new WeakMap<Account, Map<string, Buffer>>();

function filesOf({ account }: EndpointContext): Map<string, Buffer> {
  const known = files.get(account) ?? new Map<string, Buffer>();
  files.set(account, known);
  return known;
}

function databaseIn({ databases }: Account, idOrName = ""): Database {
  const database = databases.find(({ uuid, name }) => uuid === idOrName || name === idOrName);
  if (!database) throw new ApiError(404, 7404, "The database could not be found");
  return database;
}

/** The endpoints of D1 and its Time Travel, and of the files that it imports and exports. */
export function addD1(on: AddEndpoint, context: EndpointContext): void {
  const { account } = context;
  const { databases } = account;
  const shown = ({ uuid, name, region }: Database) => ({
    uuid,
    name,
    version: "production",
    created_in_region: region,
    created_at: now(),
  });
  on("GET", "/accounts/:account/d1/database", "D1", ({ query }) =>
    databases.filter(({ name }) => !query.get("name") || name === query.get("name")).map(shown),
  );
  on("POST", "/accounts/:account/d1/database", "D1", ({ json }) => {
    if (databases.some(({ name }) => name === json.name)) throw new ApiError(400, 7502, "A database with that name already exists");
    const made = {
      uuid: randomUUID(),
      name: json.name,
      region: (json.primary_location_hint ?? "weur").toUpperCase(),
      jurisdiction: json.jurisdiction ?? null,
      bookmarks: [],
    };
    databases.push(made);
    return shown(made);
  });
  on("GET", "/accounts/:account/d1/database/:id", "D1", ({ parts: [id] }) => shown(databaseIn(account, id)));
  on("POST", "/accounts/:account/d1/database/:id/query", "D1", ({ parts: [id], json }) =>
    queryDatabase(context, databaseIn(account, id), json),
  );
  on("POST", "/accounts/:account/d1/database/:id/import", "D1", ({ parts: [id], json }) =>
    importFile(context, databaseIn(account, id), json),
  );
  on("POST", "/accounts/:account/d1/database/:id/export", "D1", ({ parts: [id], json }) =>
    exportDatabase(context, databaseIn(account, id), json),
  );
  const travel = "/accounts/:account/d1/database/:id/time_travel";
  on("GET", `${travel}/bookmark`, "D1", async ({ parts: [id], query }) => {
    const database = databaseIn(account, id);
    const before = query.get("timestamp");
    const found =
      before === null ? await noteBookmark(context, database) : database.bookmarks.findLast(({ at }) => at <= Date.parse(before));
    if (!found) throw new ApiError(400, 7500, "There is no bookmark at this time.");
    return { bookmark: found.bookmark };
  });
  on("POST", `${travel}/restore`, "D1", async ({ parts: [id], query }) => {
    const database = databaseIn(account, id);
    const target = database.bookmarks.find(({ bookmark }) => bookmark === query.get("bookmark"));
    if (!target) throw new ApiError(400, 7500, "There is no such bookmark.");
    const { bookmark: previous } = await noteBookmark(context, database);
    await replaceDatabase(context, database, target.statements);
    return { bookmark: target.bookmark, previous_bookmark: previous, message: "Restored." };
  });
  on("GET", "/files/:name", null, ({ parts: [name = ""] }) => new Response(new Uint8Array(filesOf(context).get(name) ?? Buffer.from(""))));
  on("PUT", "/files/:name", null, ({ parts: [name = ""], body }) => {
    filesOf(context).set(name, body);
    return new Response(null, { headers: { ETag: `"${createHash("md5").update(body).digest("hex")}"` } });
  });
}

async function queryDatabase(
  context: EndpointContext,
  { uuid, region }: Database,
  { sql, params = [] }: { sql: string; params?: unknown[] },
) {
  const database = await context.runtime.database(uuid);
  const results: unknown[] = [];
  for (const statement of splitAsD1(sql)) {
    try {
      const { results: rows, meta } = await database
        .prepare(statement)
        .bind(...params)
        .all();
      results.push({ results: rows, success: true, meta: { ...meta, served_by_region: region } });
    } catch (error) {
      throw new ApiError(400, 7500, (error as Error).message);
    }
  }
  return results;
}

/** Notes the present state of a database. */
async function noteBookmark(context: EndpointContext, database: Database) {
  const noted = { bookmark: randomUUID(), at: Date.now(), statements: await dumpDatabase(context, database) };
  database.bookmarks.push(noted);
  return noted;
}

async function dumpDatabase(context: EndpointContext, { uuid }: Database): Promise<string[]> {
  const database = await context.runtime.database(uuid);
  const [lines] = await database.prepare("PRAGMA miniflare_d1_export(?,?,?);").bind(false, false).raw<string[]>();
  return lines ?? [];
}

/** Replaces everything in a database by the statements of a dump. */
async function replaceDatabase(context: EndpointContext, { uuid }: Database, dump: readonly string[]): Promise<void> {
  const database = await context.runtime.database(uuid);
  const { results } = await database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%'")
    .all<{ name: string }>();
  const statements = unstable_splitSqlQuery(dump.join("\n"));
  const isTable = (statement: string) => /^CREATE TABLE/i.test(statement.trim());
  const isOther = (statement: string) => !isTable(statement) && !/^PRAGMA/i.test(statement.trim());
  const ordered = [...results.map(({ name }) => `DROP TABLE "${name}"`), ...statements.filter(isTable), ...statements.filter(isOther)];
  await database.batch(["PRAGMA defer_foreign_keys = TRUE", ...ordered].map((statement) => database.prepare(statement)));
}

/** The first call begins an export. The second one, with the bookmark, says where it is. */
async function exportDatabase(context: EndpointContext, database: Database, { current_bookmark: bookmark }: { current_bookmark?: string }) {
  if (bookmark === undefined) return { success: true, status: "active", type: "export", at_bookmark: "1", messages: [] };
  const filename = `${randomUUID()}.sql`;
  filesOf(context).set(filename, Buffer.from((await dumpDatabase(context, database)).join("\n")));
  const signedUrl = `${context.url()}/files/${filename}`;
  return {
    success: true,
    status: "complete",
    type: "export",
    at_bookmark: "1",
    messages: [],
    result: { filename, signed_url: signedUrl },
  };
}

async function importFile(
  context: EndpointContext,
  database: Database,
  { action, etag, filename }: { action: string; etag: string; filename: string },
) {
  if (action === "init") {
    const name = `${etag}.sql`;
    return { success: true, filename: name, upload_url: `${context.url()}/files/${name}`, type: "import", messages: [] };
  }
  const sql = filesOf(context).get(filename)?.toString() ?? "";
  const results = await queryDatabase(context, database, { sql });
  const meta = { duration: 1, rows_read: 0, rows_written: 0, size_after: 0 };
  return {
    success: true,
    status: "complete",
    type: "import",
    messages: [],
    result: { num_queries: results.length, final_bookmark: "1", meta },
  };
}
