import { Hono } from "hono";

/**
 * The obvious design stores everything in D1. Each request reads the row of its key, increments a counter and writes a log row. The tables are
 * as small as possible and have no secondary indexes.
 */
const app = new Hono<{ Bindings: Env }>();

const tables = [
  "CREATE TABLE IF NOT EXISTS naive_keys (hash TEXT PRIMARY KEY, id TEXT, hourly_limit INTEGER) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS naive_counters (key_id TEXT, hour INTEGER, used INTEGER, PRIMARY KEY (key_id, hour)) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS naive_activity (id TEXT PRIMARY KEY, key_id TEXT, method TEXT, path TEXT, status INTEGER, duration_ms INTEGER,
    ip TEXT, user_agent TEXT) WITHOUT ROWID`,
];

const hexOf = (bytes: ArrayBuffer) => Buffer.from(bytes).toString("hex");
const hashOf = async (text: string) => hexOf(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));

app.post("/prepare", async (c) => {
  const { keys, limit } = await c.req.json<{ keys: string[]; limit: number }>();
  await c.env.DB.batch(tables.map((table) => c.env.DB.prepare(table)));
  const insert = c.env.DB.prepare("INSERT INTO naive_keys VALUES (?, ?, ?)");
  const hashes = await Promise.all(keys.map(hashOf));
  await c.env.DB.batch(hashes.map((hash, index) => insert.bind(hash, `key_${index}`, limit)));
  return c.json({ prepared: keys.length });
});

app.get("/me", async (c) => {
  const startedAt = Date.now();
  const secretKey = c.req.header("authorization")?.slice("Bearer ".length) ?? "";
  const found = await c.env.DB.prepare("SELECT id, hourly_limit FROM naive_keys WHERE hash = ?")
    .bind(await hashOf(secretKey))
    .all<{ id: string; hourly_limit: number }>();
  const key = found.results[0];
  if (!key) return c.json({ error: "invalid_key" }, 401);
  const counter = await c.env.DB.prepare(
    "INSERT INTO naive_counters VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET used = used + 1 RETURNING used",
  )
    .bind(key.id, Math.floor(startedAt / 3_600_000))
    .all<{ used: number }>();
  const used = counter.results[0]?.used ?? 0;
  const status = used > key.hourly_limit ? 429 : 200;
  await c.env.DB.prepare("INSERT INTO naive_activity VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    .bind(
      crypto.randomUUID(),
      key.id,
      "GET",
      "/me",
      status,
      Date.now() - startedAt,
      c.req.header("cf-connecting-ip") ?? null,
      c.req.header("user-agent") ?? null,
    )
    .run();
  c.header("X-RateLimit-Used", String(used));
  return c.json({ key: key.id, used, limit: key.hourly_limit }, status);
});

/** Follows the same retention steps as the product: first deletes the IP addresses, and then deletes the rows. */
app.post("/retain", async (c) => {
  await c.env.DB.prepare("UPDATE naive_activity SET ip = NULL WHERE ip IS NOT NULL").run();
  await c.env.DB.prepare("DELETE FROM naive_activity").run();
  return c.json({ retained: true });
});

export default app;
