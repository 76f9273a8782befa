import { Hono } from "hono";
import { operatorOnly } from "./authenticate.ts";
import type { OperatorEnv } from "./context.ts";
import { metrics } from "./metrics.ts";
import { accounts } from "./resources/accounts.ts";
import { keys } from "./resources/keys.ts";
import { maintenance } from "./resources/maintenance.ts";

const base = "/operator/api";

/** Whether a path is answered to an operator's token: in JSON, and to no browser. */
export const isOperatorApi = (path: string): boolean => path === "/metrics" || path === base || path.startsWith(`${base}/`);

/** Whether a path is a page of the operator, which has sessions of its own. */
export const isOperatorPage = (path: string): boolean => path === "/operator" || path.startsWith("/operator/");

/** What the team that runs this deployment reads and changes by command line and by monitors. */
export function createOperatorApi() {
  const operator = new Hono<OperatorEnv>();
  operator.use("/metrics", operatorOnly);
  operator.use(`${base}/*`, operatorOnly);
  operator.use(base, operatorOnly);
  for (const resource of [accounts, keys, maintenance]) operator.route(base, resource);
  operator.route("/", metrics);
  return operator;
}
