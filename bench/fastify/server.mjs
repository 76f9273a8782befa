// A stack that a team would choose today. Fastify serves the requests, Redis counts for the rate limit, and PostgreSQL stores the keys and the
// log. Log rows are buffered for 50 ms and then written in one statement. Each request looks up its key in PostgreSQL, so a revoked key stops
// working at once.
import { createHash, randomUUID } from "node:crypto";
import rateLimit from "@fastify/rate-limit";
import Fastify from "fastify";
import { Redis } from "ioredis";
import pg from "pg";

const [port, redisPort, postgresPort, keys] = process.argv.slice(2);
const hashOf = (text) => createHash("sha256").update(text).digest("hex");
const pool = new pg.Pool({ host: "127.0.0.1", port: Number(postgresPort), user: "postgres", database: "postgres", max: 10 });
await pool.query(
  "CREATE TABLE api_keys (hash TEXT PRIMARY KEY, id TEXT NOT NULL, account_id TEXT NOT NULL, scopes TEXT[] NOT NULL, state TEXT NOT NULL)",
);
await pool.query(`CREATE TABLE activity (id UUID PRIMARY KEY, account_id TEXT, key_id TEXT, method TEXT, path TEXT, status INTEGER, duration_ms INTEGER,
  ip TEXT, user_agent TEXT, at TIMESTAMPTZ NOT NULL DEFAULT now())`);
for (const [index, key] of JSON.parse(keys).entries())
  await pool.query("INSERT INTO api_keys VALUES ($1, $2, 'acc_1', '{users:read,tasks:read}', 'active')", [hashOf(key), `key_${index}`]);

let gathered = [];
setInterval(async () => {
  if (gathered.length === 0) return;
  const rows = gathered;
  gathered = [];
  await pool.query({
    name: "log",
    text: `INSERT INTO activity (id, account_id, key_id, method, path, status, duration_ms, ip, user_agent)
      SELECT * FROM json_to_recordset($1) AS row(id UUID, account_id TEXT, key_id TEXT, method TEXT, path TEXT, status INTEGER, duration_ms INTEGER, ip TEXT, user_agent TEXT)`,
    values: [JSON.stringify(rows)],
  });
}, 50);

const app = Fastify({ genReqId: () => randomUUID() });
app.addHook("onRequest", async (request, reply) => {
  const secretKey = request.headers.authorization?.slice("Bearer ".length) ?? "";
  const found = await pool.query({ name: "key", text: "SELECT * FROM api_keys WHERE hash = $1", values: [hashOf(secretKey)] });
  request.key = found.rows[0];
  if (request.key?.state !== "active") return reply.code(401).send({ code: "invalid_key" });
});
app.addHook("onResponse", async (request, reply) => {
  if (!request.key) return;
  gathered.push({
    id: request.id,
    account_id: request.key.account_id,
    key_id: request.key.id,
    method: request.method,
    path: request.url,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime),
    ip: request.ip,
    user_agent: request.headers["user-agent"] ?? null,
  });
});
await app.register(rateLimit, {
  max: 1_000_000_000,
  timeWindow: "1 hour",
  redis: new Redis({ host: "127.0.0.1", port: Number(redisPort) }),
  hook: "preHandler",
  keyGenerator: (request) => request.key.id,
});
app.get("/me", async (request) => ({ account: { id: request.key.account_id }, key: { id: request.key.id, scopes: request.key.scopes } }));
await app.listen({ host: "127.0.0.1", port: Number(port) });
