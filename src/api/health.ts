import { Hono } from "hono";
import { connect } from "../db/client.ts";
import { requireReady } from "../db/ready.ts";

export const health = new Hono<{ Bindings: Env }>();

/** For monitors (draft-inadarei-api-health-check): passes when D1 answers and has its tables. */
health.get("/health", async (c) => {
  c.header("Content-Type", "application/health+json");
  c.header("Cache-Control", "no-store");
  try {
    await requireReady(connect(c.env.DB));
    return c.body(JSON.stringify({ status: "pass" }), 200);
  } catch (error) {
    console.error("health: D1 does not answer", error);
    return c.body(JSON.stringify({ status: "fail", output: "The database does not answer." }), 503);
  }
});
