import { Hono } from "hono";

/** A minimal Worker: a router with one handler that always returns the same response. This Worker shows the upper bound of the platform. */
const app = new Hono();
app.get("/", (c) => c.json({ ok: true }));

export default app;
