import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";

/** The floor of any exact limit on this platform: a router, and one exchange with an object that does nothing. */
export class KeyGuard extends DurableObject {
  admit(): null {
    return null;
  }
}

const app = new Hono<{ Bindings: Env }>();
app.get("/", async (c) => {
  await c.env.KEY_GUARD.getByName("one").admit("");
  return c.json({ ok: true });
});

export default app;
