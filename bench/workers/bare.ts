import { Hono } from "hono";

/** The platform's ceiling: a router and nothing behind it. */
const app = new Hono();
app.get("/", (c) => c.json({ ok: true }));

export default app;
