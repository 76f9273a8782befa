import { Hono } from "hono";

/** The upper bound of the platform: a router with one handler that always returns the same response. */
const app = new Hono();
app.get("/", (c) => c.json({ ok: true }));

export default app;
