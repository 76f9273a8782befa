import { createHash, randomUUID } from "node:crypto";
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

/** The endpoints of D1, and of the files that it imports and exports. */
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
  on("GET", "/accounts/:account/d1/database", (c) => databases.filter(({ name }) => name === (c.req.query("name") ?? name)).map(shown));
  on("POST", "/accounts/:account/d1/database", async (c) => {
    const json = await c.req.json();
    if (databases.some(({ name }) => name === json.name)) throw new ApiError(400, 7502, "A database with that name already exists");
    const made = {
      uuid: randomUUID(),
      name: json.name,
      region: (json.primary_location_hint ?? "weur").toUpperCase(),
      jurisdiction: json.jurisdiction ?? null,
    };
    databases.push(made);
    return shown(made);
  });
  on("GET", "/accounts/:account/d1/database/:id", (c) => shown(databaseIn(account, c.req.param("id"))));
  on("POST", "/accounts/:account/d1/database/:id/query", async (c) =>
    queryDatabase(context, databaseIn(account, c.req.param("id")), await c.req.json()),
  );
  on("POST", "/accounts/:account/d1/database/:id/import", async (c) =>
    importFile(context, databaseIn(account, c.req.param("id")), await c.req.json()),
  );
  on("POST", "/accounts/:account/d1/database/:id/export", async (c) =>
    exportDatabase(context, databaseIn(account, c.req.param("id")), await c.req.json()),
  );
  on("GET", "/files/:name", (c) => new Response(new Uint8Array(filesOf(context).get(c.req.param("name") ?? "") ?? [])));
  on("PUT", "/files/:name", async (c) => {
    const body = Buffer.from(await c.req.arrayBuffer());
    filesOf(context).set(c.req.param("name") ?? "", body);
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

async function dumpDatabase(context: EndpointContext, { uuid }: Database): Promise<string[]> {
  const database = await context.runtime.database(uuid);
  const [lines] = await database.prepare("PRAGMA miniflare_d1_export(?,?,?);").bind(false, false).raw<string[]>();
  return lines ?? [];
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
