import { shareCpu } from "../../http/cpu-share.ts";
import { receiveForm } from "../../http/form-limit.ts";
import { requestContext } from "../../http/request-context.ts";
import { requireResponse } from "../../http/require-response.ts";
import { sameOrigin } from "../../http/same-origin.ts";
import { pageSecurityHeaders } from "../../http/security-headers.ts";
import { strangerOf } from "../../http/share-owner.ts";
import { type Build, createSurfaceApp, isAt, type Surface } from "../../http/surface.ts";
import { errorPage } from "../pages/error/page.tsx";
import { accessPages } from "../pages/sign-in/access.tsx";
import { signInPages } from "../pages/sign-in/page.tsx";
import { portalPages } from "../pages/sign-in/portal.tsx";
import { setupPages } from "../pages/sign-in/setup.tsx";
import { leaveIfSignedIn, loadVisitor } from "./session.ts";

const bases = ["/login", "/setup", "/access", "/portal"];

/** Creates the sign-in pages. Visitors need no session for these pages. */
export function createSignIn(build: Build): Surface {
  const app = createSurfaceApp(errorPage);
  app.use(
    requestContext({ isLocal: build.isLocal }),
    pageSecurityHeaders,
    receiveForm(strangerOf),
    sameOrigin,
    requireResponse,
    shareCpu(strangerOf),
  );
  app.get("/login", leaveIfSignedIn(build));
  app.use("/portal", loadVisitor(build));
  app.route("/", signInPages);
  app.route("/", setupPages);
  app.route("/", accessPages);
  app.route("/", portalPages);
  return { serves: (path) => bases.some((base) => isAt(base, path)), app };
}
