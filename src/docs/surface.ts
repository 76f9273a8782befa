import { errorPage } from "../dashboard/pages/error/page.tsx";
import { anyOrigin, options } from "../http/cross-origin.ts";
import { requestContext } from "../http/request-context.ts";
import { requestLine } from "../http/request-line.ts";
import { requireResponse } from "../http/require-response.ts";
import { pageSecurityHeaders } from "../http/security-headers.ts";
import { setHeaders, standardHeaders } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import { cachePublic } from "./caching.ts";
import { createDocs, isDocumentation } from "./docs.tsx";

/** Web pages of any origin may read these paths. Web pages of any origin may also call the API. */
const openToAnyOrigin = ["/llms.txt", "/.well-known/api-catalog"];

/** Creates the documentation for people and machines. No page requires a sign-in. */
export function createDocumentation({ isLocal, isOpen }: Build): Surface {
  const app = createSurfaceApp(errorPage);
  const allowAnyOrigin = setHeaders(anyOrigin);
  app.use(requestContext({ isLocal, finish: [standardHeaders, cachePublic, requestLine] }), pageSecurityHeaders, requireResponse);
  for (const path of openToAnyOrigin)
    app.use(
      path,
      async (c, next) => {
        await next();
        allowAnyOrigin(c);
      },
      options(() => ["GET", "HEAD"]),
    );
  app.route("/", createDocs({ isOpen }));
  return { serves: isDocumentation, app };
}
