import { createRoute, z } from "@hono/zod-openapi";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { body, del, get, post } from "../../api/route-parts/requests.ts";
import { listOf, time } from "../../api/route-parts/schemas.ts";
import { maskPath } from "../../credentials/mask-keys.ts";
import { connect } from "../../db/client.ts";
import { iso } from "../../lib/time/clock.ts";
import { addFindings, clearFindings, type Finding, readFindings } from "../../monitoring/shadow.ts";
import { createTeamRouter, requireTokenScope, teamEmpty, teamResult } from "../team-router.ts";
import { mayActOn } from "../tokens/token.ts";
import { described } from "../verify/described.ts";

// Shadow mode: what the service would have decided about requests that ran in any case.

export const routes = createTeamRouter();

const tags = ["Shadow mode"];
const id = (description: string, example: string) => z.string().max(100).nullable().meta({ description, example });
const finding = {
  account: id("The account, or null if it is not known.", "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708"),
  key: id("The key, or null if it is not known.", "key_2wVY7cPq9sTdKfR4"),
  code: id("The code of the denial, or null if the service would have admitted the requests.", "revoked_key"),
  own: z.enum(["allowed", "denied", "not_compared"]).meta({ description: "What your own check said.", example: "allowed" }),
  credential: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .nullable()
    .meta({ description: "The first 16 characters of the SHA-256 of a credential that the service does not know.", example: null }),
  count: z.int().min(1).max(1_000_000).meta({ description: "The number of requests.", example: 3 }),
};

const addShadow = createRoute({
  ...post("/shadow", "addShadowFindings", "Report findings of shadow mode"),
  description:
    "Reports what the service would have decided about requests that ran in any case, in groups. The clients send it in shadow mode. A message counts once: each message of a process has a higher number.",
  tags,
  ...requireTokenScope("verify", "handler"),
  request: {
    body: body(
      z.strictObject({
        holder: z.string().min(1).max(100).meta({ description: "A name of your process.", example: "api-1/4711" }),
        sequence: z.int().min(1).meta({ description: "The number of the message.", example: 1 }),
        findings: z
          .array(
            z.strictObject({
              ...finding,
              method: z.string().optional().meta({ description: "The method of the latest request.", example: "GET" }),
              path: z.string().optional().meta({ description: "The path of the latest request.", example: "/orders/7" }),
            }),
          )
          .min(1)
          .max(500),
      }),
    ),
  },
  responses: { 204: teamEmpty("The findings are stored.") },
});

routes.openapi(addShadow, async (c) => {
  const { findings, ...message } = c.req.valid("json");
  const own = findings.filter(({ account }) => account === null || mayActOn(c.get("token"), account));
  const rows = own.map(({ account, key, code, credential, own: said, count, ...request }): Finding => {
    const { method = "-", path = "-" } = described({ key: "", cost: 1, report: false, ...request });
    const texts = { account: account ?? "", key: key ?? "", code: code ?? "", credential: credential ?? "" };
    return { ...texts, own: said, count, request: `${method} ${maskPath(path.split("?")[0] ?? "")}` };
  });
  if (rows.length > 0) await addFindings(connect(c.env.DB), message, rows);
  return respondEmpty(c, 204);
});

const counted = (description: string, example: number) => z.int().meta({ description, example });

const readShadow = createRoute({
  ...get("/shadow", "getShadowReport", "Get the report of shadow mode"),
  description:
    "Returns whom the service would have denied, by reason, key and account, and where your own check decided in another way. Findings are kept for 31 days.",
  tags,
  ...requireTokenScope("accounts:read"),
  responses: teamResult("The report.", {
    requests: counted("The requests that were decided.", 10_000),
    denials: counted("The requests that the service would have denied.", 52),
    undecided: counted("The requests about which the service did not decide in time. They would have got 503.", 2),
    differences: counted("The requests about which your own check decided in another way.", 37),
    findings: listOf("The groups, first those that differ, then the largest. At most 500.", {
      ...finding,
      count: counted("The number of requests.", 3),
      differs: z.boolean().meta({ description: "Whether your own check decided in another way.", example: true }),
      request: z.string().meta({ description: "The method and the path of the latest request.", example: "GET /orders/7" }),
      first_at: time.meta({ description: "The time of the first request." }),
      last_at: time.meta({ description: "The time of the latest request." }),
    }),
  }),
});

const orNull = (text: string) => text || null;

routes.openapi(readShadow, async (c) => {
  const { findings, ...sums } = await readFindings(connect(c.env.DB));
  const shown = findings.map(({ account, key, code, credential, firstAt, lastAt, ...rest }) => ({
    ...rest,
    account: orNull(account),
    key: orNull(key),
    code: orNull(code),
    credential: orNull(credential),
    first_at: iso(firstAt),
    last_at: iso(lastAt),
  }));
  return respondJson(c, { ...sums, findings: shown }, 200);
});

const clearShadow = createRoute({
  ...del("/shadow", "clearShadowFindings", "Clear the report of shadow mode"),
  description: "Deletes all findings, so that you can look again after a change.",
  tags,
  ...requireTokenScope("accounts:write"),
  responses: { 204: teamEmpty("The findings are deleted.") },
});

routes.openapi(clearShadow, async (c) => {
  await clearFindings(connect(c.env.DB));
  return respondEmpty(c, 204);
});
