import type { Hono } from "hono";
import type { AppContext } from "../../http/context.ts";
import { shareCpu } from "../../http/cpu-share.ts";
import { receiveForm } from "../../http/form-limit.ts";
import { requestContext } from "../../http/request-context.ts";
import { requireResponse } from "../../http/require-response.ts";
import { sameOrigin } from "../../http/same-origin.ts";
import { pageSecurityHeaders } from "../../http/security-headers.ts";
import { type Owner, strangerOf, team } from "../../http/share-owner.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../../http/surface.ts";
import type { TeamContext } from "../../team/context.ts";
import type { TeamEnv } from "../../team/team-router.ts";
import { errorPage } from "../pages/error/page.tsx";
import { operatorPages, sessionOf } from "./operator.tsx";

const bases = ["/operator", "/docs/team"];

const ownerOf = async (c: AppContext): Promise<Owner> =>
  (await sessionOf(c as unknown as TeamContext).catch(() => null)) ? team : strangerOf(c);

/** Creates the pages for the team that runs this deployment. Operators and members have separate sessions. `more`: pages of other transports. */
export function createOperatorPages({ isLocal }: Pick<Build, "isLocal">, more: readonly Hono<TeamEnv>[]): Surface {
  const app = createSurfaceApp(errorPage);
  app.use(requestContext({ isLocal }), pageSecurityHeaders, sameOrigin, receiveForm(ownerOf), requireResponse, shareCpu(ownerOf));
  app.route("/", operatorPages);
  for (const pages of more) app.route("/", pages);
  return { serves: (path) => bases.some((base) => isAt(base, path)), app };
}
