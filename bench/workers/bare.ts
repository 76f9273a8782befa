import { Hono } from "hono";

/** The upper bound of the platform: a router with a handler that does nothing else. */
const app = new Hono();
app.get("/", (c) => c.json({ ok: true }));

export default app;
